package funcgp

import (
	"cmp"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/option"
)

// methodAuto is the value of Method.Name that lets the fit choose the method. weights is the method of
// posteriors over the parameters.
const methodAuto, weights = "auto", "weights"

// defaultWithin is Method.Within of the method kept where it is not given.
const defaultWithin = 0.05

// laplace and variationally are the values of FitOptions.Inference.
const laplace, variationally = "laplace", "variational"

// variational tells whether the posterior is the Gaussian with the largest lower bound on the evidence.
func (o *FitOptions) variational() bool { return o.Inference == variationally }

// inWeights tells whether the answers come from a posterior over the parameters.
func (o *FitOptions) inWeights() bool { return o.Structure != "" || o.Predictive == "bnn" }

// tunesByRefits tells whether Prior.Tune needs a refit at every precision. The scores of a posterior at θ* say
// nothing about other precisions (E17), because θ* has seen all training rows.
func (o *FitOptions) tunesByRefits() bool { return o.Prior.Tune == "loo" || o.Prior.Tune == "evidence" }

// takesRows tells whether the inducing elements are single rows (example, direction of Λ), which Inducing counts,
// and not examples with all of their outputs.
func (m *Method) takesRows() bool { return m.Select == result.SelectStrength }

// inducingOutputs is the number of outputs that inducing examples have where Inducing is not given.
const inducingOutputs = 2000

// withDefaults returns the method with what it leaves open filled in for a problem.
func (m Method) withDefaults(p *problem) (Method, error) {
	if m.Name = cmp.Or(m.Name, "exact"); m.Name == "exact" && m.Within != 0 {
		m.Name = "kept"
	}
	if (m.Name == "kept" || m.Name == methodAuto) && m.Within == 0 {
		m.Within = defaultWithin
	}
	if !isSparse(m.Name) {
		return m, nil
	}
	n := p.Examples.Train.Len()
	if m.takesRows() {
		most := n * p.Model.Outputs
		if m.Inducing == 0 {
			m.Inducing = min(most, inducingOutputs)
		}
		if m.Inducing > most {
			return m, option.Errorf("{inducing=%d}: there are %d rows (example, direction of Λ); give at most %d", m.Inducing, most, most)
		}
		return m, nil
	}
	if m.Inducing == 0 {
		m.Inducing = min(n, max(1, inducingOutputs/p.Model.Outputs))
	}
	if m.Inducing > n {
		return m, option.Errorf("{inducing=%d}: there are %d training rows; give at most %d", m.Inducing, n, n)
	}
	switch {
	case m.Select == "" && p.Task.Classes != nil:
		m.Select = "stratified"
	case m.Select == "":
		m.Select = "uniform"
	case m.Select == "stratified" && p.Task.Classes == nil:
		return m, option.Errorf("{select=stratified} is by class, but %s has %s; choose another", p.Model.Name, p.Task.Predicts())
	}
	return m, nil
}
