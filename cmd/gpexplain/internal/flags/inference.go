package flags

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/funcgp/funcgp/internal/inference"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/problem"
)

// Values are the values of flags that several verbs have, for a shell.
var Values = map[string][]string{"data": {"digits", "mnist"}, "likelihood": problem.Likelihoods, "standardize": problem.Standardizations, "method": inference.Methods, "select": inference.Selections,
	"tune-prior": inference.Tunings, "calibrate": inference.Calibrations, "structure": inference.Structures, "predictive": inference.Predictives}

// Method defines the flags of a method.
func Method(c *cobra.Command) {
	f := c.Flags()
	f.String("method", "exact", "`METHOD` of the posterior: exact; kept, exact for the rows of all data that say something; subset, which takes part of the data; nystrom, which takes all data through inducing examples; parameters, exact for any number of rows by the precision of the P parameters, 8·P² bytes; or auto, which takes exact where that is quick, and else kept, parameters or nystrom, and says why")
	f.Int("inducing", 0, "`M` inducing examples of --method subset or nystrom, or with --select strength inducing rows (default as many as have 2000 outputs)")
	f.Float64("within", 0, "leave out rows that say nothing, so that for 99 % of a sample of test rows the variance is at most 1+`PART` times that of all rows; --method exact becomes kept, whose default is 0.05, and nystrom passes over the rows kept alone")
	f.Bool("certify", false, "of --method kept: pass over all rows left out once more, for bounds of what they would change instead of estimates from a sample")
	f.String("select", "", "`HOW` to choose inducing examples: uniform, stratified, trace, greedy, rpcholesky or kmeans (default stratified by class, uniform for a regression); or, of --method nystrom, strength: single rows, each an example with a direction of its Λ, which say most")
}

// Methods are the rules of the flags of a method, and of the flags that say at which precision it answers. The file of
// a posterior says the same, with which the flags are compared when it is opened.
var Methods = Unless("posterior inducing-file",
	Apart(": both say the prior precision of the answers", "at", "prior-precision"),
	Apart(": both say the prior precision of the answers", "at", "prior"),
	Apart(": both say the prior precision of the answers", "at", "tune-prior"),
	each([]string{"at"}, func(_ *pflag.FlagSet, x *pflag.Flag) error {
		if text := x.Value.String(); !inference.IsAt(text) {
			return job.NotOneOf("at", text, []string{inference.AtMatch, inference.AtStated, "a positive number"})
		}
		return nil
	}),
	OneOf("tune-prior", inference.Tunings),
	OneOf("method", inference.Methods),
	each([]string{"within"}, func(_ *pflag.FlagSet, x *pflag.Flag) error {
		if v, err := strconv.ParseFloat(x.Value.String(), 64); err != nil || !(v > 0 && v <= inference.MostWithin) {
			return job.Usagef("--within %s must be above 0, and at most %v", x.Value, inference.MostWithin)
		}
		return nil
	}),
	For("method=exact|kept|nystrom|auto", "", "within"),
	Refuse("--within with --method nystrom is not for --tune-prior {tune-prior}; give --method kept", "within", "method=nystrom", "tune-prior=loo|evidence"),
	Refuse("--checkpoint is for passes over all rows; leave --within out", "within", "method=nystrom|auto", "checkpoint"),
	Refuse("--certify is for --method kept, or exact with --within, not {method}", "certify", "!within", "!method=kept"),
	Refuse("--certify is for --method kept, or exact with --within, not {method}", "certify", "!method=exact|kept"),
	Not("method=auto", "; give --method exact, kept or nystrom", "tune-prior"),
	AtLeast(1, "inducing"),
	OneOf("select", inference.Selections),
	Refuse("--select strength is for --method nystrom: a subset of the data is one of whole examples", "select=strength", "method=subset"),
	Unless("select-only", // by default nystrom
		For("method=subset|nystrom", "", "inducing", "select"),
		Refuse("--checkpoint is for --method kept or nystrom, not {method}", "checkpoint", "!method=kept|subset|nystrom", "!within")),
)

// Parameters are the rules of --structure and --predictive: where they take a posterior over the parameters, which
// asked says, it is none over functions.
var Parameters = func() []Rule {
	rules := []Rule{
		OneOf("structure", inference.Structures),
		OneOf("predictive", inference.Predictives),
		Refuse("--predictive linear is not for the {likelihood} likelihood", "predictive=linear", "likelihood=heteroscedastic"),
		For("predictive=glm", "", "link"),
		Refuse("--predictive {predictive} cannot be given with --posterior, whose predictions are those of the linearized network; leave one of them out", "!predictive=glm", "posterior"),
		Refuse("--calibrate heldout scales a covariance, and --predictive bnn has draws; leave one of them out", "calibrate=heldout", "predictive=bnn"),
	}
	for _, asked := range [][]string{{"--structure {structure}", "structure"}, {"--predictive bnn", "predictive=bnn", "!structure"}} {
		refuse := func(before, after string, when ...string) {
			rules = append(rules, Refuse(before+asked[0]+after, append(when, asked[1:]...)...))
		}
		for _, name := range []string{"posterior", "method", "inducing", "within", "certify", "select", "tune-prior"} {
			refuse("--"+name+" is for posteriors over functions, and ", " is one over parameters; leave one of them out", name)
		}
		refuse("--calibrate loo takes a posterior over functions, and ", " is one over parameters; give --calibrate heldout or none", "calibrate", "calibrate=loo")
		refuse("--coverage takes predictions without each training row, which ", " has not; give --calibrate heldout too, or leave it out", "coverage", "!calibrate=heldout")
	}
	return rules
}()

// Answer defines --at and --refit, which say what the answers are.
func Answer(c *cobra.Command) {
	At(c)
	c.Flags().Bool("refit", false, "take the mean of the refit, the linearized model at its optimum for the training rows, in place of the network's own output; the covariance, and the terms of explanations, are the refit's in either case")
}

// At defines --at.
func At(c *cobra.Command) {
	c.Flags().String("at", inference.AtMatch, "answer at the prior precision `WHICH`: match, at which the refit fits the training rows as the network does; stated, that of the training; or a number. --prior-precision, --prior and --tune-prior say it too")
}

// Tune defines --tune-prior.
func Tune(c *cobra.Command) {
	f := c.Flags()
	f.String("tune-prior", "", "answer at a prior precision chosen by `HOW` in place of the match: evidence, the log evidence; loo, leave-one-out predictions of training rows; both refit at every precision; or heldout, rows that were not trained on: validation rows, or the last 5000 training rows that are left (without a value: heldout)")
	f.Lookup("tune-prior").NoOptDefVal = "heldout"
}

// Posterior defines --posterior.
func Posterior(c *cobra.Command) {
	c.Flags().String("posterior", "", "answer from the posterior in `FILE`, which gpexplain fit wrote, instead of fitting one")
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
	c.Flags().String("calibrate", "loo", "scale the covariance, and the mean of classes, for probabilities and intervals by `HOW`: loo, by leave-one-out predictions of the training rows; heldout, by rows that were not trained on; or none")
}

// Coverage defines --coverage.
func Coverage(c *cobra.Command, share **float64) {
	OptionalFloat(c, share, "coverage", "for each row give an interval (a regression) or a set of classes that should hold the target of a share `P` of new rows, by jackknife+ from leave-one-out predictions, or by held-out rows with --calibrate heldout")
}

// Weights defines --structure and --predictive.
func Weights(c *cobra.Command) {
	f := c.Flags()
	f.String("structure", "", "take the posterior over the parameters with the `STRUCTURE` full, diag, block (a block a layer), kfac, kfac-damped, last-layer, subnetwork or chain")
	f.String("predictive", "glm", "`HOW` predictions are made: glm, of the linearized network; bnn, by drawing parameters and running the network; or linear, with the response linearized too")
}
