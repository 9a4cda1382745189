package flags

import (
	"strings"

	"github.com/spf13/cobra"
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

// Parameters are the rules of what a verb asks of a posterior over the parameters, beside those of a fit.
var Parameters = []Rule{
	For("predictive=glm", "", "link"),
	Refuse("{coverage} takes predictions without each training row, which {structure=<structure>} has not; give {calibrate=heldout} too, or leave it out", "coverage", "!calibrate=heldout", "structure"),
	Refuse("{coverage} takes predictions without each training row, which {predictive=bnn} has not; give {calibrate=heldout} too, or leave it out", "coverage", "!calibrate=heldout", "predictive=bnn", "!structure"),
}

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
