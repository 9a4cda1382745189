package funcgp

import (
	"context"
	"errors"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/funcgp/funcgp/explain/counterfactual"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/kept"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

var (
	_ counterfactual.Base = (*gp.Exact)(nil)
	_ counterfactual.Base = (*kept.Posterior)(nil)
)

// counterfactualModel returns the model that answers from other training data. Where the posterior has no such
// model, the error names the option or verb that needs it.
func counterfactualModel(ctx context.Context, c *job.Job, p *problem, q *solution, flag option.Text) (*counterfactual.Model, error) {
	if err := q.changeable(flag, p.Saved != nil); err != nil {
		return nil, err
	}
	kernel := ntk.New(q.Prior(), p.Model.Net.Theta())
	return counterfactual.New(ctx, q.Dual.(counterfactual.Base), kernel, p.TrainTargets(), p.Bounds(c))
}

// changeable is the function of the same name for q, and refuses what is not defined for variational inference.
func (q *solution) changeable(flag option.Text, saved bool) error {
	if q.elbo != nil {
		remedy := option.Text("give {inference=laplace}")
		if saved {
			remedy = "fit one by {fit inference=laplace}"
		}
		return option.Errorf("%s needs a posterior by {inference=laplace}, and this one is by {inference=variational}; %s", flag, remedy)
	}
	return changeable(flag, q.How.Name, saved, q.Dual.Refitted())
}

// notOfAllRows is the error of an option or verb that needs a posterior given all training rows. saved tells
// that the posterior is from a file, so that its method cannot be changed.
func notOfAllRows(flag option.Text, method string, saved bool) error {
	remedy := option.Text("give {method=exact} or kept")
	if saved {
		remedy = "fit one by {fit method=exact} or kept"
	}
	return option.Errorf("%s needs a posterior of all training rows, which {method=%s} is not; %s", flag, method, remedy)
}

// AtHalfWeights refits the training rows at half of their weights, which is twice the prior precision (E23), by the same
// method, for explain.AddInfluence. It takes another kernel and factor, of all rows or of those that are kept there.
func (q *solution) AtHalfWeights(ctx context.Context, c *job.Job, p *problem) (gp.Dual, error) {
	if err := q.changeable("{influence}", p.Saved != nil); err != nil {
		return nil, err
	}
	f := &fit{con: c, problem: p, theta: p.Model.Net.Theta(), source: q.Dual.Data()}
	err := f.setPrecision(2 * q.precision)
	if err != nil {
		return nil, err
	}
	defer c.Clear()
	if q.kept != nil {
		f.asked.Method = again(&result.Fit{Method: q.How.Name, Certificate: q.certificate})
		half, err := f.keptAgain(ctx, q.kept)
		return half, explainError(p.Examples.Train, err)
	}
	half, err := f.exactDual(ctx, f.source.(*linearize.Batch), nil)
	return half, explainError(p.Examples.Train, err)
}

// smallestFlip looks for a small set of training rows without which the class of one row is another. It returns the
// set and, where there is one, what q predicts without it, with what the posterior without it warns of.
func smallestFlip(ctx context.Context, p *problem, q *solution, m *counterfactual.Model, x *linearize.Batch, o counterfactual.FlipOptions, link predictive.Link) (*result.SmallestFlip, *predictions, []error, error) {
	var err error
	o.NoRefit = q.How.Name != "exact" // which would form the kernel of all training rows
	if o.Shift, err = q.Shift(ctx, x); err != nil {
		return nil, nil, nil, err
	}
	if k := q.Calibration.Scales(); k != nil && k.Shift != nil {
		floats.Add(o.Shift, k.Shift)
	}
	found, err := m.SmallestFlip(ctx, x, &o)
	if none := (*counterfactual.NoFlipError)(nil); errors.As(err, &none) {
		return &result.SmallestFlip{Changed: result.Changed{Rows: []int{}, Class: result.Undefined()}, Tried: none.Tried,
			Left: none.Left, Margin: []result.Float{result.Float(none.Before), result.Float(none.After)}}, nil, nil, nil
	}
	if err != nil {
		return nil, nil, nil, err
	}
	without, err := m.Fit(ctx, p.TrainTargets().Without(found.Rows...), nil)
	if err != nil {
		return nil, nil, nil, err
	}
	flip := &result.SmallestFlip{Found: true, Confirmed: found.Confirmed, Tried: found.Tried, Left: len(found.Rows)}
	for _, at := range found.Rows {
		flip.Rows = append(flip.Rows, p.Examples.Train.Index[at])
	}
	slices.Sort(flip.Rows)
	pred, err := q.ChangeTo(ctx, p, &flip.Changed, without, x, link)
	return flip, pred, without.Warnings(), err
}

// ChangeTo predicts the row of x by a posterior given other training data, and adds the prediction to the
// report that describes those data.
func (q *solution) ChangeTo(ctx context.Context, p *problem, report *result.Changed, other *counterfactual.Posterior, x *linearize.Batch, link predictive.Link) (*predictions, error) {
	pred, err := q.PredictBy(ctx, q.Changed(other), p.Task, x, nil, link)
	if err != nil {
		return nil, err
	}
	report.Mean, report.Probability, report.Class = rowOf(pred.Mean, 0), rowOf(pred.Prob, 0), pred.class(p.Task, 0)
	report.ClassName = p.NameOf(report.Class)
	return pred, nil
}
