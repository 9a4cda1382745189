package flags

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/funcgp/funcgp/internal/option"
)

// Method defines the flags of a method, and others that say how a verb comes by its posterior.
func Method(c *cobra.Command, others ...string) {
	Define(c, "method", "inducing", "within", "certify", "select")
	Define(c, others...)
}

// Define defines flags by the table of options, whose values CheckProblem takes where they are given.
func Define(c *cobra.Command, names ...string) {
	f := c.Flags()
	for _, name := range names {
		switch o := option.Find(name); name {
		case "inducing":
			f.Int(name, 0, o.Help)
		case "within":
			f.Float64(name, 0, o.Help)
		case "certify", "refit":
			f.Bool(name, false, o.Help)
		case "tune-prior":
			f.String(name, o.Default, o.Help)
			f.Lookup(name).NoOptDefVal = "heldout"
		default:
			f.String(name, o.Default, o.Help)
		}
	}
}

// Parameters are the rules of what a verb asks of a posterior over the parameters, beside those of a fit.
var Parameters = []Rule{
	For("predictive=glm", "", "link"),
	Refuse("{coverage} takes predictions without each training row, which {structure=<structure>} has not; give {calibrate=heldout} too, or leave it out", "coverage", "!calibrate=heldout", "structure"),
	Refuse("{coverage} takes predictions without each training row, which {predictive=bnn} has not; give {calibrate=heldout} too, or leave it out", "coverage", "!calibrate=heldout", "predictive=bnn", "!structure"),
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
