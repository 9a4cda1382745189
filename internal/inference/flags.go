package inference

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/internal/console"
	"github.com/funcgp/funcgp/internal/problem"
)

// Flags say how a verb comes by its posterior: fitted by a method, or
// read from a file.
type Flags struct {
	Method, selection string
	inducing          int     // 0 where not given
	within            float64 // 0 keeps all rows
	certify           bool
	Refit             bool   // the mean is that of the refit, and not f(x;θ*)
	at                string // --at; "" is match
	tune              string // what chooses the prior precision; "" keeps the stated one
	tuneFlag          string // what asked for it; "" is --tune-prior
	File              string // a saved posterior; "" fits one
}

var (
	methods    = append(slices.Clone(problem.Methods), methodAuto)
	selections = []string{"uniform", "stratified", "trace", "greedy", "rpcholesky", "kmeans", report.SelectStrength}
	tunings    = []string{"loo", "evidence", "heldout"}
)

// methodAuto is the --method that chooses one of the others.
const methodAuto = "auto"

// MethodValues are what a shell completes, with more values of a verb's own.
func MethodValues(more map[string][]string) map[string][]string {
	all := map[string][]string{"method": methods, "select": selections, "tune-prior": tunings}
	for name, values := range more {
		all[name] = values
	}
	return all
}

// Add defines the flags of a method.
func (s *Flags) Add(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&s.Method, "method", "exact", "`METHOD` of the posterior: exact; kept, exact for the rows of all data that say something; subset, which takes part of the data; nystrom, which takes all data through inducing examples; fitc, likewise, with what those leave unexplained as noise; cg, exact without forming the kernel; or auto, which takes exact where that is quick, and else kept or nystrom, and says why")
	f.IntVar(&s.inducing, "inducing", 0, "`M` inducing examples of --method subset, nystrom or fitc, or with --select strength inducing rows (default as many as have 2000 outputs)")
	f.Float64Var(&s.within, "within", 0, "leave out rows that say nothing, so that for 99 % of a sample of test rows the variance is at most 1+`PART` times that of all rows; --method exact becomes kept, whose default is 0.05, and nystrom passes over the rows kept alone")
	f.BoolVar(&s.certify, "certify", false, "of --method kept: pass over all rows left out once more, for bounds of what they would change instead of estimates from a sample")
	f.StringVar(&s.selection, "select", "", "`HOW` to choose inducing examples: uniform, stratified, trace, greedy, rpcholesky or kmeans (default stratified by class, uniform for a regression); or, of --method nystrom or fitc, strength: single rows, each an example with a direction of its Λ, which say most")
}

// AddAnswer defines --at and --refit, which say what the answers are.
func (s *Flags) AddAnswer(c *cobra.Command) {
	s.AddAt(c)
	c.Flags().BoolVar(&s.Refit, "refit", false, "take the mean of the refit, the linearized model at its optimum for the training rows, in place of the network's own output; the covariance, and the terms of explanations, are the refit's in either case")
}

// AtStated are the same flags for answers at the stated precision.
func (s *Flags) AtStated() *Flags {
	out := *s
	out.at = atStated
	return &out
}

// AddTune defines --tune-prior.
func (s *Flags) AddTune(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&s.tune, "tune-prior", "", "answer at a prior precision chosen by `HOW` in place of the match: evidence, the log evidence; loo, leave-one-out predictions of training rows; both refit at every precision; or heldout, rows that were not trained on: validation rows, or the last 5000 training rows that are left (without a value: heldout)")
	f.Lookup("tune-prior").NoOptDefVal = "heldout"
}

// JoinTune writes --tune-prior and a value after it as one argument, since it may
// also stand without a value.
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

// AddFile defines --posterior.
func (s *Flags) AddFile(c *cobra.Command) {
	c.Flags().StringVar(&s.File, "posterior", "", "answer from the posterior in `FILE`, which gpexplain fit wrote, instead of fitting one")
}

// flagMethods are the methods that a flag is for.
var flagMethods = map[string]string{"inducing": "subset, nystrom or fitc", "select": "subset, nystrom or fitc", "checkpoint": "kept, nystrom or fitc"}

// Check refuses flags that do not go together.
func (s *Flags) Check(c *cobra.Command) error {
	f := c.Flags()
	if s.File != "" || f.Changed("inducing-file") {
		*s = Flags{Method: "exact", File: s.File} // the file says the rest, which problem.Open compares with the flags
		return nil
	}
	if err := s.checkAt(c); err != nil {
		return err
	}
	if s.Method == "exact" && f.Changed("within") {
		s.Method = "kept"
	}
	switch {
	case f.Changed("tune-prior") && !slices.Contains(tunings, s.tune):
		return console.NotOneOf("tune-prior", s.tune, tunings)
	case !slices.Contains(methods, s.Method):
		return console.NotOneOf("method", s.Method, methods)
	case f.Changed("within") && !(s.within > 0 && s.within <= mostWithin):
		return console.Usagef("--within %v must be above 0, and at most %d", s.within, mostWithin)
	case f.Changed("within") && s.Method != "kept" && s.Method != "nystrom" && s.Method != methodAuto:
		return console.Usagef("--within is for --method exact, kept, nystrom or auto, not %s", s.Method)
	case f.Changed("within") && s.Method == "nystrom" && s.tunesByRefits():
		return console.Usagef("--within with --method nystrom is not for --tune-prior %s; give --method kept", s.tune)
	case f.Changed("within") && f.Changed("checkpoint") && s.Method != "kept":
		return console.Usagef("--checkpoint is for passes over all rows; leave --within out")
	case s.certify && s.Method != "kept":
		return console.Usagef("--certify is for --method kept, or exact with --within, not %s", s.Method)
	case s.tune != "" && s.Method == methodAuto:
		return console.Usagef("--tune-prior is not for --method auto; give exact, kept or nystrom")
	case s.tune != "" && s.Method == "fitc":
		return console.Usagef("--tune-prior is not for --method fitc, whose sums over the data hold for one prior; choose the precision with --method nystrom and give it as --prior-precision")
	case f.Changed("inducing") && s.inducing < 1:
		return console.Usagef("--inducing %d must be at least 1", s.inducing)
	case s.selection != "" && !slices.Contains(selections, s.selection):
		return console.NotOneOf("select", s.selection, selections)
	case s.takesRows() && s.Method == "subset":
		return console.Usagef("--select %s is for --method nystrom or fitc: a subset of the data is one of whole examples", s.selection)
	case problem.IsSparse(s.Method):
		return nil
	}
	for _, name := range []string{"inducing", "select", "checkpoint"} {
		if f.Changed(name) && !(name == "checkpoint" && s.Method == "kept") {
			return console.Usagef("--%s is for --method %s, not %s", name, flagMethods[name], s.Method)
		}
	}
	return nil
}

// mostWithin is the largest value of --within.
const mostWithin = 10

// defaultWithin is --within of the method kept where it is not given.
const defaultWithin = 0.05

// tunesByRefits tells whether --tune-prior takes a refit at every precision: at θ*,
// which has seen all training rows, their scores say nothing about other
// precisions (E17).
func (s *Flags) tunesByRefits() bool { return s.tune == "loo" || s.tune == "evidence" }

// takesRows tells whether the inducing elements are single rows (example, direction of Λ),
// which --inducing counts, and not examples with all of their outputs.
func (s *Flags) takesRows() bool { return s.selection == report.SelectStrength }

// inducingOutputs is the number of outputs that inducing examples have where
// --inducing is not given.
const inducingOutputs = 2000

// withDefaults returns the flags with the inducing examples that they leave
// open.
func (s Flags) withDefaults(p *problem.Problem) (Flags, error) {
	if (s.Method == "kept" || s.Method == methodAuto) && s.within == 0 {
		s.within = defaultWithin
	}
	if !problem.IsSparse(s.Method) {
		return s, nil
	}
	n := p.Examples.Train.Len()
	if s.takesRows() {
		most := n * p.Model.Outputs
		if s.inducing == 0 {
			s.inducing = min(most, inducingOutputs)
		}
		if s.inducing > most {
			return s, fmt.Errorf("--inducing %d: there are %d rows (example, direction of Λ); give at most %d", s.inducing, most, most)
		}
		return s, nil
	}
	if s.inducing == 0 {
		s.inducing = min(n, max(1, inducingOutputs/p.Model.Outputs))
	}
	if s.inducing > n {
		return s, fmt.Errorf("--inducing %d: there are %d training rows; give at most %d", s.inducing, n, n)
	}
	switch {
	case s.selection == "" && p.Task.Classes != nil:
		s.selection = "stratified"
	case s.selection == "":
		s.selection = "uniform"
	case s.selection == "stratified" && p.Task.Classes == nil:
		return s, fmt.Errorf("--select stratified is by class, but %s has the %s likelihood; choose another", p.Model.Name, p.Task.Likelihood.Name())
	}
	return s, nil
}

// tunedBy is the flag that asked for the choice of a precision.
func (s *Flags) tunedBy() string {
	if s.tuneFlag != "" {
		return s.tuneFlag
	}
	return "--tune-prior"
}
