package funcgp

import (
	"cmp"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/option"
)

// methodFlags say how a verb comes by its posterior: fitted by a method, or read from a file.
type methodFlags struct {
	Method, Selection string
	Inducing          int     // 0 where not given
	Within            float64 // 0 keeps all rows
	Certify           bool
	Refit             bool   // the mean is that of the refit, and not f(x;θ*)
	At                string // --at; "" is match
	Tune              string // what chooses the prior precision; "" keeps the stated one
}

// methodFlagsOf are what options of a fit say of the method.
func methodFlagsOf(o *FitOptions) *methodFlags {
	m := &o.Method
	return &methodFlags{Method: m.Name, Selection: m.Select, Inducing: m.Inducing, Within: m.Within, Certify: m.Certify, Refit: o.Refit, At: o.Prior.At, Tune: o.Prior.Tune}
}

// methodAuto is the --method that chooses one of the others.
const methodAuto = "auto"

// defaultWithin is --within of the method kept where it is not given.
const defaultWithin = 0.05

// tunesByRefits tells whether --tune-prior takes a refit at every precision: at θ*, which has seen all training rows,
// their scores say nothing about other precisions (E17).
func (s *methodFlags) tunesByRefits() bool { return s.Tune == "loo" || s.Tune == "evidence" }

// takesRows tells whether the inducing elements are single rows (example, direction of Λ), which --inducing counts,
// and not examples with all of their outputs.
func (s *methodFlags) takesRows() bool { return s.Selection == result.SelectStrength }

// inducingOutputs is the number of outputs that inducing examples have where --inducing is not given.
const inducingOutputs = 2000

// withDefaults returns the flags with the inducing examples that they leave open.
func (s methodFlags) withDefaults(p *problem) (methodFlags, error) {
	if s.Method = cmp.Or(s.Method, "exact"); s.Method == "exact" && s.Within != 0 {
		s.Method = "kept"
	}
	if (s.Method == "kept" || s.Method == methodAuto) && s.Within == 0 {
		s.Within = defaultWithin
	}
	if !isSparse(s.Method) {
		return s, nil
	}
	n := p.Examples.Train.Len()
	if s.takesRows() {
		most := n * p.Model.Outputs
		if s.Inducing == 0 {
			s.Inducing = min(most, inducingOutputs)
		}
		if s.Inducing > most {
			return s, option.Errorf("{inducing=%d}: there are %d rows (example, direction of Λ); give at most %d", s.Inducing, most, most)
		}
		return s, nil
	}
	if s.Inducing == 0 {
		s.Inducing = min(n, max(1, inducingOutputs/p.Model.Outputs))
	}
	if s.Inducing > n {
		return s, option.Errorf("{inducing=%d}: there are %d training rows; give at most %d", s.Inducing, n, n)
	}
	switch {
	case s.Selection == "" && p.Task.Classes != nil:
		s.Selection = "stratified"
	case s.Selection == "":
		s.Selection = "uniform"
	case s.Selection == "stratified" && p.Task.Classes == nil:
		return s, option.Errorf("{select=stratified} is by class, but %s has %s; choose another", p.Model.Name, p.Task.Predicts())
	}
	return s, nil
}
