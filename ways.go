package funcgp

import (
	"cmp"
	"errors"
	"slices"
	"strconv"

	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
)

// The values of Prior.At that are no number.
const (
	atMatch  = "match"
	atStated = "stated"
)

// isAt tells whether a text is a value of Prior.At.
func isAt(text string) bool {
	v, err := strconv.ParseFloat(text, 64)
	return text == atMatch || text == atStated || err == nil && v >= 1e-300 && v <= 1e300
}

// checkWays returns an error for option values that do not exist, and for ways of fitting that exclude each
// other. file is the posterior's file, or "": it says how the posterior was fitted, and other options must
// agree with it.
func (o *FitOptions) checkWays(file string) error {
	for _, one := range []struct{ name, value string }{{"method", o.Method.Name}, {"select", o.Method.Select}, {"tune-prior", o.Prior.Tune},
		{"inference", o.Inference}, {"structure", o.Structure}, {"predictive", o.Predictive}, {"calibrate", o.Calibrate}} {
		if values := option.Values(one.name); one.value != "" && !slices.Contains(values, one.value) && (one.name != "calibrate" || one.value != "skip") {
			return job.NotOneOf(one.name, one.value, values)
		}
	}
	switch {
	case o.Prior.At != "" && !isAt(o.Prior.At):
		return job.NotOneOf("at", o.Prior.At, []string{atMatch, atStated, "a positive number"})
	case o.Samples < 0:
		return job.Usagef("{samples=%d} must be at least 1", o.Samples)
	case o.Method.Inducing < 0:
		return job.Usagef("{inducing=%d} must be at least 1", o.Method.Inducing)
	case !(o.Method.Within >= 0 && o.Method.Within <= option.MostWithin):
		return job.Usagef("{within=%v} must be above 0, and at most %v", o.Method.Within, option.MostWithin)
	}
	if err := o.checkParameters(file); err != nil || file != "" {
		return err
	}
	if err := o.checkMethod(); err != nil {
		return err
	}
	return o.checkInference()
}

// checkMethod returns an error for options that the method or the prior does not support.
func (o *FitOptions) checkMethod() error {
	m, p := &o.Method, &o.Prior
	name := cmp.Or(m.Name, "exact")
	of := func(names ...string) bool { return slices.Contains(names, name) }
	apart := func(a, b option.Text) error {
		return job.Usagef("%v and %v exclude each other: both say the prior precision of the answers", a, b)
	}
	switch {
	case p.At != "" && p.Precision != nil:
		return apart("{at}", "{prior-precision}")
	case p.At != "" && p.File != "":
		return apart("{at}", "{prior}")
	case p.At != "" && p.Tune != "":
		return apart("{at}", "{tune-prior}")
	case p.G && p.File != "":
		return job.Usagef("{g-prior} and {prior} exclude each other: both say the prior")
	case m.Within > 0 && !of("exact", "kept", "nystrom", "auto"):
		return job.Usagef("{within} is for {method} exact, kept, nystrom or auto, not %s", name)
	case m.Within > 0 && name == "nystrom" && (p.Tune == "loo" || p.Tune == "evidence"):
		return job.Usagef("{within} with {method=nystrom} is not for {tune-prior=%s}; give {method=kept}", p.Tune)
	case m.Within > 0 && o.Checkpoint != "" && of("nystrom", "auto"):
		return job.Usagef("{checkpoint} is for passes over all rows; leave {within} out")
	case m.Certify && name != "kept" && (m.Within == 0 || name != "exact"):
		return job.Usagef("{certify} is for {method} kept, or exact with {within}, not %s", name)
	case p.Tune != "" && name == "auto":
		return job.Usagef("{tune-prior} is not for {method=auto}; give {method} exact, kept or nystrom")
	case m.Select == "strength" && name == "subset":
		return job.Usagef("{select=strength} is for {method=nystrom}: a subset of the data is one of whole examples")
	case m.Inducing > 0 && !isSparse(name):
		return job.Usagef("{inducing} is for {method} subset or nystrom, not %s", name)
	case m.Select != "" && !isSparse(name):
		return job.Usagef("{select} is for {method} subset or nystrom, not %s", name)
	case o.Checkpoint != "" && m.Within == 0 && name != "kept" && !isSparse(name):
		return job.Usagef("{checkpoint} is for {method} kept or nystrom, not %s", name)
	}
	return nil
}

// checkParameters returns an error for options that a posterior over the parameters does not support.
func (o *FitOptions) checkParameters(file string) error {
	of := option.Set("structure", o.Structure)
	switch {
	case o.Predictive == "linear" && o.Likelihood == "heteroscedastic":
		return job.Usagef("{predictive=linear} is not for the heteroscedastic likelihood")
	case file != "" && o.Predictive != "" && o.Predictive != "glm":
		return job.Usagef("{predictive=%s} cannot be given with {posterior}, whose predictions are those of the linearized network; leave one of them out", o.Predictive)
	case o.Calibrate == "heldout" && o.Predictive == "bnn":
		return job.Usagef("{calibrate=heldout} scales a covariance, and {predictive=bnn} has draws; leave one of them out")
	case o.Structure == "" && o.Predictive != "bnn":
		return nil
	case o.Structure == "":
		of = "{predictive=bnn}"
	}
	m := &o.Method
	for _, one := range []struct {
		name  string
		given bool
	}{{"posterior", file != ""}, {"method", m.Name != ""}, {"inducing", m.Inducing > 0}, {"within", m.Within > 0}, {"certify", m.Certify}, {"select", m.Select != ""}, {"tune-prior", o.Prior.Tune != ""}} {
		if one.given {
			return job.Usagef("%v is for posteriors over functions, and %v is one over parameters; leave one of them out", option.Named(one.name), of)
		}
	}
	switch {
	case o.Calibrate == "loo":
		return job.Usagef("{calibrate=loo} takes a posterior over functions, and %v is one over parameters; give {calibrate} heldout or none", of)
	case o.AtTheta:
		return errors.New("FitOptions.AtTheta is for posteriors over functions; leave it out")
	}
	return nil
}
