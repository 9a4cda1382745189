package funcgp

import (
	"context"
	"errors"
	"slices"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/job"
)

// Info describes the model, the data and the method of a posterior.
type Info = result.Info

// A Card says what those who are to use a network with its posterior must know.
type Card = result.Card

// Check returns an error if a warning says that the network does not suit the data or the prior, so that the
// answers are not to be trusted. The codes of such warnings are bad-fit, class-order, not-optimum,
// overconfident, targets-scaled and wrong-outputs. Without such warnings the error is nil.
func (p *Posterior) Check() error {
	list := p.Warnings()
	return errors.Join(slices.DeleteFunc(list, func(w error) bool { return !result.IsAlarm(w) })...)
}

// Record returns what identifies the source of answers, to be filed with them: the SHA-256 of the files of
// model, data and posterior, and the time. It reads the files and returns their errors, or the error of a
// context that is done.
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

// ModelSum is the name of the model with the SHA-256 of its file.
func (p *Posterior) ModelSum(ctx context.Context) (result.FileSum, error) {
	sum, err := p.problem.Model.Sum(ctx)
	return result.FileSum{Name: p.problem.Model.Name, SHA256: sum}, p.named(err)
}

// Info describes the model, the data and the method of the posterior.
func (p *Posterior) Info() Info {
	f, out := p.reportOf(job.New(nil), p.post), infoOf(p.problem)
	out.Method, out.PriorPrecision, out.PriorPrecisionOrigin, out.NoiseVariance = f.Method, f.PriorPrecision, f.PriorPrecisionOrigin, result.Undefined()
	out.LogEvidence, out.Bound, out.Examples, out.Parameters, out.Outputs = f.LogEvidence, f.Bound, f.Examples, f.Parameters, f.Outputs
	out.Refitted = p.post != nil && p.post.Dual != nil && p.post.Dual.Refitted()
	if f.NoiseVariance != nil {
		out.NoiseVariance = *f.NoiseVariance
	}
	return out
}

// infoOf describes the rows and the outputs of a problem.
func infoOf(p *problem) Info {
	d, t := p.Examples.Data, p.Task
	return Info{Model: p.Model.Name, Data: d.Source, Likelihood: t.Likelihood.Name(), InputShape: slices.Clone(d.Shape), Columns: slices.Clone(d.Columns), Target: d.Target,
		Classes: slices.Clone(t.ClassNames()), Labels: slices.Clone(t.LabelNames)}
}

// Card returns the content of a model card, which report.WriteCard writes. Its errors are those of Record.
func (p *Posterior) Card(ctx context.Context) (*Card, error) {
	if err := p.ready(ctx); err != nil {
		return nil, p.named(err)
	}
	c := &Card{Info: p.Info(), Fit: p.Report(ctx), Quantity: p.problem.Task.Quantity(p.problem.Examples.Data.Target)}
	if saved := p.problem.Saved; saved != nil {
		switch c.Holds = result.NoInputs; {
		case saved.Header.Without:
			c.Holds = result.InducingInputs
		case saved.Header.Inputs:
			c.Holds = result.AllInputs
		}
	}
	var err error
	c.Origin, err = p.Origin(ctx)
	return c, err
}

// Unit names the unit of an output in words.
func (p *Posterior) Unit() string { return p.problem.Unit() }
