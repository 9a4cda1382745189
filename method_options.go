package funcgp

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

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
	File              string // a saved posterior; "" fits one
}

// methodFlagsOf are what options of a fit say of the method.
func methodFlagsOf(o *FitOptions) *methodFlags {
	m := &o.Method
	return &methodFlags{Method: m.Name, Selection: m.Select, Inducing: m.Inducing, Within: m.Within, Certify: m.Certify, Refit: o.Refit, At: o.Prior.At, Tune: o.Prior.Tune}
}

// methodAuto is the --method that chooses one of the others.
const methodAuto = "auto"

// The values of --at that are no number.
const (
	atMatch  = "match"
	atStated = "stated"
)

// isAt tells whether a text is a value of --at.
func isAt(text string) bool {
	v, err := strconv.ParseFloat(text, 64)
	return text == atMatch || text == atStated || err == nil && v >= 1e-300 && v <= 1e300
}

// Check refuses what a program gives and cannot be. Zero is the default of each value.
func (s *methodFlags) Check() error {
	m := cmp.Or(s.Method, "exact")
	switch {
	case !slices.Contains(option.Values("method"), m):
		return fmt.Errorf("there is no method %q; take one of %v", m, option.Values("method"))
	case s.Inducing < 0 || s.Inducing > 0 && !isSparse(m) && m != methodAuto:
		return fmt.Errorf("%d inducing examples are not for the method %s", s.Inducing, m)
	case s.Within < 0 || s.Within > option.MostWithin || s.Within > 0 && m != "exact" && m != "kept" && m != "nystrom" && m != methodAuto:
		return fmt.Errorf("rows cannot be left out within %v by the method %s", s.Within, m)
	case s.Selection != "" && !(slices.Contains(option.Values("select"), s.Selection) && isSparse(m)):
		return fmt.Errorf("there is no selection %q for the method %s; take one of %v with nystrom or subset", s.Selection, m, option.Values("select"))
	case s.Tune != "" && !slices.Contains(option.Values("tune-prior"), s.Tune):
		return fmt.Errorf("there is no way %q to choose the prior precision; take one of %v", s.Tune, option.Values("tune-prior"))
	case s.At != "" && !isAt(s.At):
		return fmt.Errorf("the precision %s must be a positive number", s.At)
	}
	return nil
}

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
