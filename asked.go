package funcgp

import (
	"cmp"
	"context"
	"strconv"
	"strings"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
)

// asked holds the options of the model, the data and the fit from which a problem is read. It is a copy, with
// lists of names in NFC, and has what was found beside them.
type asked struct {
	Model Model
	Data  Data
	Fit   FitOptions

	posterior string // file of a posterior, or of inducing examples, beside which the others are given; "" for none

	network []byte               // an ONNX file that the file of the posterior holds; nil for none
	rows    *dataset.Data        // of Data.X; nil for none
	gone    bool                 // the data of a saved posterior are not there, but its training rows are
	shared  *sharedData          // of several networks; nil for one
	bySize  map[string]fileCheck // files of the data whose checksums are taken as they are remembered
}

// Check returns an error for wrong options. It opens no file, except to learn whether built-in data have as
// many rows as asked for. file is the posterior's file to which the options are given in addition, or "". Any
// of the options may be nil.
func Check(m *Model, d *Data, o *FitOptions, file string) error {
	if m == nil {
		m = &Model{}
	}
	if d == nil {
		d = &Data{}
	}
	if o == nil {
		o = &FitOptions{}
	}
	_, err := checked(m, d, o, file)
	return named(err)
}

// checked returns the options after checking them without opening a file.
func checked(m *Model, d *Data, o *FitOptions, file string) (*asked, error) {
	s := &asked{Model: *m, Data: *d, Fit: *o, posterior: file}
	if o.Structure == "last-layer" && len(m.Layers) == 0 {
		s.Model.Layers = []string{LastLayer} // of other layers it needs no Jacobian
	}
	if d.X != nil {
		var err error
		if s.rows, err = held(d, m.Network); err != nil {
			return nil, err
		}
		s.Data.Source = s.rows.Name
	}
	for _, check := range []func() error{func() error { return o.checkWays(file) }, s.Fit.checkTask, s.Fit.checkScaling, s.checkData} {
		if err := check(); err != nil {
			return nil, err
		}
	}
	_, _, err := parseOutputs(o.Outputs)
	return s, err
}

// hasModel tells whether the options name a model.
func (s *asked) hasModel() bool { return s.Model.File != "" || s.Model.Network != nil }

// checkTask returns an error for values of likelihood, loss and prior that are invalid or exclude each other.
func (s *FitOptions) checkTask() error {
	weights, err := parseClassWeights(s.ClassWeights)
	if err != nil {
		return job.Usagef("{class-weights=%s}: %v", s.ClassWeights, err)
	}
	prior := &s.Prior
	positive := func(v *float64) bool { return v == nil || *v >= 1e-300 && *v <= 1e300 }
	switch {
	case !positive(prior.Precision):
		return job.Usagef("{prior-precision=%v} must be a positive number", *prior.Precision)
	case prior.WeightDecay != nil && *prior.WeightDecay == 0:
		return job.Usagef("{weight-decay=0} is no prior: training without decay has none that would be known; leave it out, and choose a precision with {tune-prior=loo}")
	case !positive(prior.WeightDecay):
		return job.Usagef("{weight-decay=%v} must be a positive number", *prior.WeightDecay)
	case prior.WeightDecay != nil && prior.Precision != nil:
		return job.Usagef("{weight-decay} and {prior-precision} exclude each other: both say the precision of the prior")
	case prior.File != "" && prior.Precision != nil:
		return job.Usagef("{prior} and {prior-precision} exclude each other: both say the prior")
	case prior.File != "" && prior.WeightDecay != nil:
		return job.Usagef("{prior} and {weight-decay} exclude each other: both say the prior")
	case prior.File != "" && s.NoiseVariance != nil:
		return job.Usagef("{prior} and {noise-variance} exclude each other: the file says the noise variance too")
	case s.LabelSmoothing != nil && !(*s.LabelSmoothing >= 0 && *s.LabelSmoothing < 1):
		return job.Usagef("{label-smoothing=%v} must be at least 0 and less than 1", *s.LabelSmoothing)
	case !positive(s.NoiseVariance):
		return job.Usagef("{noise-variance=%v} must be a positive number", *s.NoiseVariance)
	case s.Likelihood == "":
		return nil
	case !isLikelihood(s.Likelihood):
		return job.NotOneOf("likelihood", s.Likelihood, option.Values("likelihood"))
	case s.NoiseVariance != nil && !hasNoise(likelihoodNamed(s.Likelihood)):
		return job.Usagef("{noise-variance} is for {likelihood=gaussian}, not %s", s.Likelihood)
	case s.LabelSmoothing != nil && !hasClasses(likelihoodNamed(s.Likelihood)):
		return job.Usagef("{label-smoothing} is for labels, not for {likelihood=%s}", s.Likelihood)
	case weights != nil && !hasClasses(likelihoodNamed(s.Likelihood)):
		return job.Usagef("{class-weights} is for labels, not for {likelihood=%s}", s.Likelihood)
	}
	return nil
}

// checkData returns an error for data options that are invalid or exclude each other, and for classes that do
// not suit the likelihood. Data that are generated rather than read from a file are opened, so that their name
// is known to be right.
func (f *asked) checkData() error {
	s := &f.Data
	switch {
	case s.TrainCount < 0:
		return job.Usagef("{train-count=%d} must be at least 1", s.TrainCount)
	case s.TrainCount != 0 && s.TrainFile != "":
		return job.Usagef("{train-count} and {train-index} exclude each other")
	case s.Split != nil && s.TestFile != "":
		return job.Usagef("{split} and {test-data} exclude each other")
	case s.Split != nil && s.ValidFile != "":
		return job.Usagef("{split} and {valid-data} exclude each other")
	case s.Split != nil && *s.Split < 0:
		return job.Usagef("{split=%d} must be 0 or more", *s.Split)
	}
	for i, list := range []*[]string{&s.Classes, &s.ClassNames} {
		flag := []string{"classes", "class-names"}[i]
		var err error
		if *list, err = job.CheckNames(*list); err != nil {
			return job.Usagef("%v", option.Set(flag, err))
		}
		if len(*list) == 1 {
			return job.Usagef("%v is one class; name at least two with commas between them, as in 0,1,2", option.Set(flag, (*list)[0]))
		}
	}
	if s.Classes != nil && s.ClassNames != nil && len(s.Classes) != len(s.ClassNames) {
		return job.Usagef("{classes} has %d classes, but {class-names} names %d", len(s.Classes), len(s.ClassNames))
	}
	for _, name := range s.Classes {
		if s.ClassNames != nil {
			break
		}
		if err := f.checkNumber("{classes}", name); err != nil {
			return err
		}
	}
	if likelihood := f.Fit.Likelihood; s.Classes != nil && likelihood != "" {
		lik := likelihoodNamed(likelihood)
		switch {
		case !hasClasses(lik):
			return job.Usagef("{classes} is for labels, not for {likelihood=%s}", likelihood)
		case !isSoftmax(lik) && len(s.Classes) != 2:
			return job.Usagef("{likelihood=%s} is for two classes, not %d", likelihood, len(s.Classes))
		}
	}
	if kind, _, _ := strings.Cut(s.source(), ":"); kind == "digits" && f.posterior == "" {
		if _, err := dataset.Open(context.Background(), s.source(), f.dataOptions()); err != nil {
			return job.Usagef("{data=%v}", err)
		}
	}
	if s.Source != "mnist" {
		return nil
	}
	for _, o := range []struct {
		flag  string
		given bool
	}{{"target", s.Target != ""}, {"id", s.ID != ""}, {"row-weights", s.RowWeights != ""}, {"split", s.Split != nil}, {"test-data", s.TestFile != ""}, {"valid-data", s.ValidFile != ""}} {
		if o.given {
			return job.Usagef("%v is for a CSV file, not {data=mnist}", option.Named(o.flag))
		}
	}
	return nil
}

// byRange is the size in bytes from which the inputs of a file stay in it: reading a tile of rows again in each pass
// costs little beside linearizing them.
const byRange = 64 << 20

// dataOptions returns the options for dataset.Open.
func (f *asked) dataOptions() *dataset.OpenOptions {
	s := &f.Data
	o := &dataset.OpenOptions{Target: s.Target, ID: s.ID, Weights: s.RowWeights, ClassNames: s.ClassNames, TestFile: s.TestFile, ValidFile: s.ValidFile, Split: s.Split, MaxBytes: gp.MemoryBudget(f.Fit.Memory), ByRange: byRange}
	if s.InMemory {
		o.ByRange = 0
	}
	return o
}

// source is where the rows are, with its default.
func (s *Data) source() string { return cmp.Or(s.Source, "digits") }

// parseClasses reads the labels of a model's metadata, such as 4,9; "" is nil.
func parseClasses(text string) ([]int, error) {
	names, err := job.SplitNames(text)
	if err == nil && len(names) == 1 {
		err = strconv.ErrRange
	}
	var list []int
	for _, field := range names {
		k, e := strconv.Atoi(field)
		if e != nil {
			err = e
		}
		list = append(list, k)
	}
	return list, err
}

// formatInts writes integers with commas between them.
func formatInts(list []int) string {
	out := make([]string, len(list))
	for i, k := range list {
		out[i] = strconv.Itoa(k)
	}
	return strings.Join(out, ",")
}
