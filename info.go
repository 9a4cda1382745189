package funcgp

import (
	"math"
	"slices"
)

// Info says what a posterior is of.
type Info struct {
	Method     string  // as of Method.Name
	Likelihood string  // as of FitOptions.Likelihood
	Precision  float64 // δ of the answers; NaN where parameters have different ones
	Noise      float64 // σ² of a Gaussian likelihood, by default by leave-one-out; NaN of others
	From       string  // where Precision comes from, in words
	// LogEvidence is that of the training rows in nats; NaN where the method has none. Bound says whether it is
	// a "lower" or an "upper" bound of the exact one; "none" or "" is neither.
	LogEvidence float64
	Bound       string

	TrainingRows, Parameters, Outputs int
	InputShape                        []int    // of one row
	Columns                           []string // of the inputs of a table, nil of others
	Target                            string   // name of the target, "" where it has none
	Classes                           []string // as of Posterior.Classes
}

// Info says what the posterior is of.
func (p *Posterior) Info() Info {
	d := p.problem.Examples.Data
	out := Info{Method: p.fit.Method, Likelihood: p.problem.Task.Likelihood.Name(), Precision: float64(p.fit.PriorPrecision), Noise: math.NaN(),
		LogEvidence: float64(p.fit.LogEvidence), TrainingRows: p.fit.Examples, Parameters: p.fit.Parameters, Outputs: p.fit.Outputs,
		InputShape: slices.Clone(d.Shape), Columns: slices.Clone(d.Columns), Target: d.Target, Classes: p.Classes()}
	out.From, out.Bound = inGo(p.fit.PriorPrecisionOrigin), p.fit.Bound
	if p.fit.NoiseVariance != nil {
		out.Noise = float64(*p.fit.NoiseVariance)
	}
	return out
}
