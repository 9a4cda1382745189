package funcgp

import (
	"context"
	"errors"

	"github.com/funcgp/funcgp/explain/counterfactual"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/inference"
	"github.com/funcgp/funcgp/internal/problem"
	"github.com/funcgp/funcgp/linearize"
)

// Without predicts the rows as Predict would had the training rows with these numbers, as of the file of the
// data, not been there: the linearized model is fitted again without them, and the network's answer moves by
// what its mean does. The posterior must be exact or kept. The trained parameters, at which the network is
// linearized, have seen all rows.
func (p *Posterior) Without(ctx context.Context, rows *Rows, training ...int) ([]Prediction, error) {
	end, err := p.begin()
	if err != nil {
		return nil, err
	}
	at, err := p.problem.TrainPositions("Without", training)
	if err != nil {
		end()
		return nil, named(err)
	}
	gone := make([]bool, p.problem.Examples.Train.Len())
	for _, i := range at {
		gone[i] = true
	}
	err = p.problem.CheckLeft("Without", p.problem.Examples.Y, gone)
	var latent gp.Latent
	if err == nil && len(at) > 0 {
		latent, err = p.without(ctx, at)
	}
	end()
	if err != nil {
		return nil, named(err)
	}
	return p.predict(ctx, rows, latent)
}

// without is the function without training rows at these positions.
func (p *Posterior) without(ctx context.Context, at []int) (gp.Latent, error) {
	m, err := inference.Counterfactual(ctx, p.job, p.problem, p.post, "Without")
	if err != nil {
		return nil, err
	}
	q, err := m.Fit(ctx, p.problem.TrainTargets().Without(at...), nil)
	if err != nil {
		return nil, problem.ExplainError(p.problem.Examples.Train, err)
	}
	return p.post.Changed(q), nil
}

// A Flip is a set of training rows without which the mean of a row is largest for another class.
type Flip struct {
	Found bool  // whether there is one within the bounds; where not, the rest but Tried is zero
	Rows  []int // their numbers in the file of the data, ascending
	Tried int   // sets that were tried
	// Confirmed says that a fit without Rows that shares nothing with the posterior has the other class too.
	Confirmed bool
	Without   Prediction // as of Posterior.Without
}

// FlipOptions are the options of SmallestFlip.
type FlipOptions struct {
	Most  int // training rows to leave out at most; 0 is a tenth
	Tries int // sets to try at most; 0 is 100
}

// SmallestFlip looks for each of the rows for a small set of training rows without which its class is another.
// A smaller set may exist. The posterior must be exact or kept, and of classes. The options may be nil.
func (p *Posterior) SmallestFlip(ctx context.Context, rows *Rows, o *FlipOptions) ([]Flip, error) {
	if o == nil {
		o = &FlipOptions{}
	}
	if p.problem.Task.Classes == nil {
		return nil, errors.New("funcgp: SmallestFlip looks for another class, and this posterior is not of classes; use Without")
	}
	var m *counterfactual.Model
	var out []Flip
	err := p.each(ctx, rows, nil, func(lo int, b *linearize.Batch, _ *inference.Predictions) (err error) {
		if m == nil {
			if m, err = inference.Counterfactual(ctx, p.job, p.problem, p.post, "SmallestFlip"); err != nil {
				return err
			}
		}
		for i := range b.Len() {
			found, pred, _, err := inference.SmallestFlip(ctx, p.problem, p.post, m, b.Slice(i, i+1), counterfactual.FlipOptions{Most: o.Most, Tries: o.Tries}, p.link)
			if err != nil {
				return err
			}
			flip := Flip{Found: found.Found, Tried: found.Tried, Confirmed: found.Confirmed}
			if found.Found {
				flip.Rows, flip.Without = found.Rows, p.prediction(rows.asked, lo+i, pred, 0)
			}
			out = append(out, flip)
		}
		return nil
	})
	return out, err
}
