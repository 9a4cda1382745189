package serve

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/counterfactual"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/inference"
	"github.com/funcgp/funcgp/internal/problem"
)

// orders say how a prediction without training examples is found.
var orders = map[string]string{
	"refit": "This is the prediction, changed by what the linearized model changes by when it is fitted again without them.",
	"first": "This is the sum of what leaving out each of them changes to first order, with the posterior covariance as it was.",
}

// toFirstOrder predicts with the sum of what leaving out each example changes (E15).
func (s *service) toFirstOrder(ctx context.Context, a *answer, rows []int) (*inference.Predictions, error) {
	w, err := s.explainer.Without(ctx, rows)
	if err != nil {
		return nil, err
	}
	mean := mat.DenseCopyOf(a.predicted.Mean)
	err = w.Each(ctx, a.batch, func(_ int, one *mat.Dense) error {
		for i := range rows {
			for c, before := range a.predicted.Mean.RawRowView(0) {
				mean.Set(0, c, mean.At(0, c)+one.At(i, c)-before)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if dense.NotFinite(mean.RawMatrix().Data) >= 0 {
		return nil, refusef(422, "undefined", "without: one of these examples alone nearly fixes the function, so that rounding leaves no digits of the answer; take another one out")
	}
	return a.predicted.WithMean(ctx, mean, s.link)
}

// refits refits the linearized model, and keeps the posteriors of the latest sets: while
// a digit is drawn, many requests take the same examples out.
type refits struct {
	model *counterfactual.Model
	y     *gp.Targets // of all training examples

	mutex  sync.Mutex
	latest []*removal // the last one first
}

// A removal is the posterior without some training examples, which is computed once.
type removal struct {
	rows   []int
	mutex  sync.Mutex
	latent *counterfactual.Posterior // nil until it is computed
}

// mostRemovals is the number of sets of examples whose posteriors are kept.
const mostRemovals = 4

// without is the posterior without training examples at these positions, which ascend; another request may have
// computed it.
func (r *refits) without(ctx context.Context, rows []int) (*counterfactual.Posterior, error) {
	r.mutex.Lock()
	at := slices.IndexFunc(r.latest, func(one *removal) bool { return slices.Equal(one.rows, rows) })
	one := &removal{rows: rows}
	if at >= 0 {
		one = r.latest[at]
		r.latest = slices.Delete(r.latest, at, at+1)
	}
	r.latest = slices.Insert(r.latest, 0, one)
	r.latest = r.latest[:min(len(r.latest), mostRemovals)]
	r.mutex.Unlock()
	one.mutex.Lock()
	defer one.mutex.Unlock()
	if one.latent == nil {
		p, err := r.model.Fit(ctx, r.y.Without(rows...), nil)
		if err != nil && !interrupted(err) {
			err = refuse(422, "undefined", fmt.Errorf("without: %w; take others out", err))
		}
		if err != nil {
			return nil, err
		}
		one.latent = p
	}
	return one.latent, nil
}

// smallestFlip looks for few training examples without which the class is another.
func (s *service) smallestFlip(ctx context.Context, in *input, a *answer) (*result.SmallestFlip, error) {
	switch {
	case s.problem.Task.Classes == nil:
		return nil, refusef(422, "bad_flip", "flip: there is no class to change; leave it out")
	case s.refits == nil:
		return nil, refusef(422, "bad_flip", "flip: a posterior by %s is not fitted again without training rows; leave it out", s.posterior.How.Name)
	}
	flip, _, _, err := inference.SmallestFlip(ctx, s.problem, s.posterior, s.refits.model, a.batch, counterfactual.FlipOptions{}, s.link)
	if err != nil {
		return nil, in.explain(ctx, err)
	}
	return flip, nil
}

// without says what would be predicted without training examples at these positions.
func (s *service) without(ctx context.Context, in *input, a *answer, rows []int) (*without, error) {
	// The best that there is for the posterior: a refit of the linearized model, which its factor makes short, or a sum
	// to first order.
	order, other, err := "first", (*inference.Predictions)(nil), error(nil)
	if s.refits == nil {
		other, err = s.toFirstOrder(ctx, a, rows)
	} else if latent, failed := s.refits.without(ctx, rows); failed != nil {
		err = failed
	} else {
		order = "refit"
		other, err = s.posterior.PredictBy(ctx, s.posterior.Changed(latent), s.problem.Task, a.batch, nil, s.link)
	}
	if err != nil {
		if r := (*refusal)(nil); errors.As(err, &r) {
			return nil, err
		}
		return nil, in.explain(ctx, err)
	}
	mean := other.Mean.RawRowView(0)
	w := &without{Rows: make([]int, len(rows)), Order: order, Mean: inference.RowOf(other.Mean, 0), Class: s.problem.Task.Class(mean),
		Probability: inference.RowOf(other.Prob, 0), ProbabilitySD: inference.RowOf(other.SD, 0), ObservationMean: inference.RowOf(other.Response, 0)}
	for k, i := range rows {
		w.Rows[k] = s.problem.Examples.Train.Index[i]
	}
	if names := s.problem.Task.ClassNames(); names != nil {
		w.ClassName, w.ClassBefore = names[problem.LargestClass(mean)], names[problem.LargestClass(a.predicted.Mean.RawRowView(0))]
	}
	return w, nil
}
