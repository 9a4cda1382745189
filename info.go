package funcgp

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/funcgp/funcgp/explain/result"
)

// Info says what a posterior is of.
type Info struct {
	Method               string  // as of Method.Name
	Likelihood           string  // as of FitOptions.Likelihood
	PriorPrecision       float64 // δ of the answers; NaN where parameters have different ones
	NoiseVariance        float64 // σ² of a Gaussian likelihood, by default by leave-one-out; NaN of others
	PriorPrecisionOrigin string  // where PriorPrecision comes from, in words
	// LogEvidence is the log evidence of the training rows in nats; NaN where the method has none. Bound says whether it is
	// a "lower" or an "upper" bound of the exact one; "none" or "" is neither.
	LogEvidence float64
	Bound       string

	Examples, Parameters, Outputs int
	InputShape                    []int    // of one row
	Columns                       []string // of the inputs of a table, nil of others
	Target                        string   // name of the target, "" where it has none
	Classes, Labels               []string // as of Posterior.Classes and Posterior.Labels
}

// Check is an error of what makes answers untrustworthy: warnings that the network does not suit the data or the
// prior, of codes bad-fit, class-order, not-optimum, overconfident, targets-scaled and wrong-outputs. It is nil where there are none.
func (p *Posterior) Check() error {
	list := p.Warnings()
	return errors.Join(slices.DeleteFunc(list, func(w error) bool { return !result.IsAlarm(w) })...)
}

// Record says what answers come from, to be filed with them: SHA-256 of the files of model, data and posterior, and the
// time. It reads the files, and returns their errors, or that of a context that is done.
func (p *Posterior) Record(ctx context.Context) (result.Record, error) {
	end, err := p.begin()
	if err != nil {
		return result.Record{}, err
	}
	defer end()
	r, err := p.problem.Record(ctx, "")
	return r, named(err)
}

// Origin says for a page where its numbers come from: the names of model and data, the Record with the scores of the
// network on the test rows, if there are any, and whether pictures are of ink. Its errors are those of Record.
func (p *Posterior) Origin(ctx context.Context) (result.Origin, error) {
	o := result.Origin{Model: p.problem.Model.Name, Data: p.problem.Examples.Data.Source}
	var err error
	if o.Record, err = p.Record(ctx); err != nil {
		return o, err
	}
	end, err := p.begin()
	if err != nil {
		return o, err
	}
	defer end()
	if o.Record.Test, err = p.problem.TestScores(ctx); err == nil {
		o.Invert, err = p.problem.Examples.Grey(ctx)
	}
	return o, named(err)
}

// Pictures finds the pictures of training rows by their numbers, for a page: pixels, or the features in their units. One
// that cannot be read is empty and sets err, which is looked at when the page is written. It must not be used after Close.
func (p *Posterior) Pictures(ctx context.Context, err *error) func(row result.Index) result.Picture {
	return p.problem.Examples.Pictures(ctx, p.problem.Examples.Train, err)
}

// Info says what the posterior is of.
func (p *Posterior) Info() Info {
	d := p.problem.Examples.Data
	out := Info{Method: p.fit.Method, Likelihood: p.problem.Task.Likelihood.Name(), PriorPrecision: float64(p.fit.PriorPrecision), NoiseVariance: math.NaN(),
		LogEvidence: float64(p.fit.LogEvidence), Examples: p.fit.Examples, Parameters: p.fit.Parameters, Outputs: p.fit.Outputs,
		InputShape: slices.Clone(d.Shape), Columns: slices.Clone(d.Columns), Target: d.Target, Classes: p.Classes(), Labels: p.Labels()}
	out.PriorPrecisionOrigin, out.Bound = inGo(p.fit.PriorPrecisionOrigin), p.fit.Bound
	if p.fit.NoiseVariance != nil {
		out.NoiseVariance = float64(*p.fit.NoiseVariance)
	}
	return out
}
