package flags

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
)

// Method defines the flags of a method.
func Method(c *cobra.Command) {
	f := c.Flags()
	define(f, "method")
	f.Int("inducing", 0, help("inducing"))
	f.Float64("within", 0, help("within"))
	f.Bool("certify", false, help("certify"))
	define(f, "select")
}

// Methods are the rules of the flags of a method, and of the flags that say at which precision it answers. The file of
// a posterior says the same, with which the flags are compared when it is opened.
var Methods = Unless("posterior inducing-file",
	Apart(": both say the prior precision of the answers", "at", "prior-precision"),
	Apart(": both say the prior precision of the answers", "at", "prior"),
	Apart(": both say the prior precision of the answers", "at", "tune-prior"),
	each([]string{"at"}, func(_ *pflag.FlagSet, x *pflag.Flag) error {
		if text := x.Value.String(); text != "match" && text != "stated" && !positive(text) {
			return job.NotOneOf("at", text, []string{"match", "stated", "a positive number"})
		}
		return nil
	}),
	OneOf("tune-prior"),
	OneOf("method"),
	each([]string{"within"}, func(_ *pflag.FlagSet, x *pflag.Flag) error {
		if v, err := strconv.ParseFloat(x.Value.String(), 64); err != nil || !(v > 0 && v <= option.MostWithin) {
			return job.Usagef("%v must be above 0, and at most %v", option.Set("within", x.Value), option.MostWithin)
		}
		return nil
	}),
	For("method=exact|kept|nystrom|auto", "", "within"),
	Refuse("{within} with {method=nystrom} is not for {tune-prior=<tune-prior>}; give {method=kept}", "within", "method=nystrom", "tune-prior=loo|evidence"),
	Refuse("{checkpoint} is for passes over all rows; leave {within} out", "within", "method=nystrom|auto", "checkpoint"),
	Refuse("{certify} is for {method} kept, or exact with {within}, not <method>", "certify", "!within", "!method=kept"),
	Refuse("{certify} is for {method} kept, or exact with {within}, not <method>", "certify", "!method=exact|kept"),
	Not("method=auto", "; give {method} exact, kept or nystrom", "tune-prior"),
	AtLeast(1, "inducing"),
	OneOf("select"),
	Refuse("{select=strength} is for {method=nystrom}: a subset of the data is one of whole examples", "select=strength", "method=subset"),
	Unless("select-only", // by default nystrom
		For("method=subset|nystrom", "", "inducing", "select"),
		Refuse("{checkpoint} is for {method} kept or nystrom, not <method>", "checkpoint", "!method=kept|subset|nystrom", "!within")),
)

// Parameters are the rules of --structure and --predictive: where they take a posterior over the parameters, which
// asked says, it is none over functions.
var Parameters = func() []Rule {
	rules := []Rule{
		OneOf("structure"),
		OneOf("predictive"),
		Refuse("{predictive=linear} is not for the <likelihood> likelihood", "predictive=linear", "likelihood=heteroscedastic"),
		For("predictive=glm", "", "link"),
		Refuse("{predictive=<predictive>} cannot be given with {posterior}, whose predictions are those of the linearized network; leave one of them out", "!predictive=glm", "posterior"),
		Refuse("{calibrate=heldout} scales a covariance, and {predictive=bnn} has draws; leave one of them out", "calibrate=heldout", "predictive=bnn"),
	}
	for _, asked := range [][]string{{"{structure=<structure>}", "structure"}, {"{predictive=bnn}", "predictive=bnn", "!structure"}} {
		refuse := func(before, after string, when ...string) {
			rules = append(rules, Refuse(option.Text(before+asked[0]+after), append(when, asked[1:]...)...))
		}
		for _, name := range []string{"posterior", "method", "inducing", "within", "certify", "select", "tune-prior"} {
			refuse("{"+name+"} is for posteriors over functions, and ", " is one over parameters; leave one of them out", name)
		}
		refuse("{calibrate=loo} takes a posterior over functions, and ", " is one over parameters; give {calibrate} heldout or none", "calibrate", "calibrate=loo")
		refuse("{coverage} takes predictions without each training row, which ", " has not; give {calibrate=heldout} too, or leave it out", "coverage", "!calibrate=heldout")
	}
	return rules
}()

// Answer defines --at and --refit, which say what the answers are.
func Answer(c *cobra.Command) {
	At(c)
	c.Flags().Bool("refit", false, help("refit"))
}

// At defines --at.
func At(c *cobra.Command) {
	define(c.Flags(), "at")
}

// Tune defines --tune-prior.
func Tune(c *cobra.Command) {
	f := c.Flags()
	define(f, "tune-prior")
	f.Lookup("tune-prior").NoOptDefVal = "heldout"
}

// Posterior defines --posterior.
func Posterior(c *cobra.Command) {
	define(c.Flags(), "posterior")
}

// JoinTune writes --tune-prior and a value after it as one argument, since it may also stand without a value.
func JoinTune(args []string) []string {
	var out []string
	for i := 0; i < len(args); i++ {
		if args[i] == "--" {
			return append(out, args[i:]...)
		}
		if args[i] == "--tune-prior" && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
			out = append(out, args[i]+"="+args[i+1])
			i++
			continue
		}
		out = append(out, args[i])
	}
	return out
}

// Calibration defines --calibrate.
func Calibration(c *cobra.Command) {
	define(c.Flags(), "calibrate")
}

// Coverage defines --coverage.
func Coverage(c *cobra.Command, share **float64) {
	OptionalFloat(c, share, "coverage", help("coverage"))
}

// Weights defines --structure and --predictive.
func Weights(c *cobra.Command) {
	f := c.Flags()
	define(f, "structure")
	define(f, "predictive")
}

// positive tells whether a text is a positive number.
func positive(text string) bool {
	v, err := strconv.ParseFloat(text, 64)
	return err == nil && v >= 1e-300 && v <= 1e300
}
