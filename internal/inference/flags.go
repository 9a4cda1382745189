package inference

import (
	"fmt"
	"slices"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/problem"
)

// Flags say how a verb comes by its posterior: fitted by a method, or
// read from a file.
type Flags struct {
	Method, Selection string
	Inducing          int     // 0 where not given
	Within            float64 // 0 keeps all rows
	Certify           bool
	Refit             bool   // the mean is that of the refit, and not f(x;θ*)
	At                string // --at; "" is match
	Tune              string // what chooses the prior precision; "" keeps the stated one
	File              string // a saved posterior; "" fits one
}

var (
	methods    = append(slices.Clone(problem.Methods), methodAuto)
	selections = []string{"uniform", "stratified", "trace", "greedy", "rpcholesky", "kmeans", result.SelectStrength}
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

// AtStated are the same flags for answers at the stated precision.
func (s *Flags) AtStated() *Flags {
	out := *s
	out.At = atStated
	return &out
}

// flagMethods are the methods that a flag is for.
var flagMethods = map[string]string{"inducing": "subset, nystrom or fitc", "select": "subset, nystrom or fitc", "checkpoint": "kept, nystrom or fitc"}

// Check refuses flags that do not go together.
func (s *Flags) Check(given func(flag string) bool) error {
	if s.File != "" || given("inducing-file") {
		*s = Flags{Method: "exact", File: s.File} // the file says the rest, which problem.Open compares with the flags
		return nil
	}
	if err := s.checkAt(given); err != nil {
		return err
	}
	if s.Method == "exact" && given("within") {
		s.Method = "kept"
	}
	switch {
	case given("tune-prior") && !slices.Contains(tunings, s.Tune):
		return job.NotOneOf("tune-prior", s.Tune, tunings)
	case !slices.Contains(methods, s.Method):
		return job.NotOneOf("method", s.Method, methods)
	case given("within") && !(s.Within > 0 && s.Within <= mostWithin):
		return job.Usagef("--within %v must be above 0, and at most %d", s.Within, mostWithin)
	case given("within") && s.Method != "kept" && s.Method != "nystrom" && s.Method != methodAuto:
		return job.Usagef("--within is for --method exact, kept, nystrom or auto, not %s", s.Method)
	case given("within") && s.Method == "nystrom" && s.tunesByRefits():
		return job.Usagef("--within with --method nystrom is not for --tune-prior %s; give --method kept", s.Tune)
	case given("within") && given("checkpoint") && s.Method != "kept":
		return job.Usagef("--checkpoint is for passes over all rows; leave --within out")
	case s.Certify && s.Method != "kept":
		return job.Usagef("--certify is for --method kept, or exact with --within, not %s", s.Method)
	case s.Tune != "" && s.Method == methodAuto:
		return job.Usagef("--tune-prior is not for --method auto; give exact, kept or nystrom")
	case s.Tune != "" && s.Method == "fitc":
		return job.Usagef("--tune-prior is not for --method fitc, whose sums over the data hold for one prior; choose the precision with --method nystrom and give it as --prior-precision")
	case given("inducing") && s.Inducing < 1:
		return job.Usagef("--inducing %d must be at least 1", s.Inducing)
	case s.Selection != "" && !slices.Contains(selections, s.Selection):
		return job.NotOneOf("select", s.Selection, selections)
	case s.takesRows() && s.Method == "subset":
		return job.Usagef("--select %s is for --method nystrom or fitc: a subset of the data is one of whole examples", s.Selection)
	case problem.IsSparse(s.Method):
		return nil
	}
	for _, name := range []string{"inducing", "select", "checkpoint"} {
		if given(name) && !(name == "checkpoint" && s.Method == "kept") {
			return job.Usagef("--%s is for --method %s, not %s", name, flagMethods[name], s.Method)
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
func (s *Flags) tunesByRefits() bool { return s.Tune == "loo" || s.Tune == "evidence" }

// takesRows tells whether the inducing elements are single rows (example, direction of Λ),
// which --inducing counts, and not examples with all of their outputs.
func (s *Flags) takesRows() bool { return s.Selection == result.SelectStrength }

// inducingOutputs is the number of outputs that inducing examples have where
// --inducing is not given.
const inducingOutputs = 2000

// withDefaults returns the flags with the inducing examples that they leave
// open.
func (s Flags) withDefaults(p *problem.Problem) (Flags, error) {
	if (s.Method == "kept" || s.Method == methodAuto) && s.Within == 0 {
		s.Within = defaultWithin
	}
	if !problem.IsSparse(s.Method) {
		return s, nil
	}
	n := p.Examples.Train.Len()
	if s.takesRows() {
		most := n * p.Model.Outputs
		if s.Inducing == 0 {
			s.Inducing = min(most, inducingOutputs)
		}
		if s.Inducing > most {
			return s, fmt.Errorf("--inducing %d: there are %d rows (example, direction of Λ); give at most %d", s.Inducing, most, most)
		}
		return s, nil
	}
	if s.Inducing == 0 {
		s.Inducing = min(n, max(1, inducingOutputs/p.Model.Outputs))
	}
	if s.Inducing > n {
		return s, fmt.Errorf("--inducing %d: there are %d training rows; give at most %d", s.Inducing, n, n)
	}
	switch {
	case s.Selection == "" && p.Task.Classes != nil:
		s.Selection = "stratified"
	case s.Selection == "":
		s.Selection = "uniform"
	case s.Selection == "stratified" && p.Task.Classes == nil:
		return s, fmt.Errorf("--select stratified is by class, but %s has the %s likelihood; choose another", p.Model.Name, p.Task.Likelihood.Name())
	}
	return s, nil
}
