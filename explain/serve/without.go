package serve

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/counterfactual"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/inference"
	"github.com/funcgp/funcgp/internal/problem"
)

// orders say how a prediction without training examples is found.
var orders = map[string]string{
	"refit": "This is the prediction, changed by what the linearized model changes by when it is fitted again without them.",
	"first": "This is the sum of what leaving out each of them changes to first order, with the posterior covariance as it was.",
}

// A remover predicts without training examples at these positions, which ascend.
type remover interface {
	predict(ctx context.Context, a *answer, rows []int) (p *inference.Predictions, order string, err error)
}

// newRemover returns the best remover that there is for the posterior: by a refit of the
// linearized model, which its factor makes short, or to first order.
func (s *service) newRemover(ctx context.Context) (remover, error) {
	base, ok := s.posterior.Dual.(counterfactual.Base)
	if !ok || !base.Refitted() {
		return &firstOrder{s}, nil
	}
	m, err := counterfactual.New(ctx, base, s.posterior.Kernel, s.problem.Examples.Y, s.problem.Task.Likelihood, &counterfactual.Options{MaxMemory: s.problem.Limits.Memory})
	return &refits{s: s, model: m}, err
}

// firstOrder adds up what leaving out each example changes (E15).
type firstOrder struct{ s *service }

var _ remover = (*firstOrder)(nil)

func (o *firstOrder) predict(ctx context.Context, a *answer, rows []int) (*inference.Predictions, string, error) {
	w, err := o.s.explainer.Without(ctx, rows)
	if err != nil {
		return nil, "", err
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
		return nil, "", err
	}
	for _, v := range mean.RawMatrix().Data {
		if v != v {
			return nil, "", refusef(422, "undefined", "without: one of these examples alone nearly fixes the function, so that rounding leaves no digits of the answer; take another one out")
		}
	}
	p, err := a.predicted.WithMean(ctx, mean, o.s.link)
	return p, "first", err
}

// refits refits the linearized model, and keeps the posteriors of the latest sets: while
// a digit is drawn, many requests take the same examples out.
type refits struct {
	s     *service
	model *counterfactual.Model

	mutex  sync.Mutex
	latest []*removal // the last one first
}

var _ remover = (*refits)(nil)

// A removal is the posterior without some training examples, which is computed once.
type removal struct {
	rows   []int
	mutex  sync.Mutex
	latent gp.Latent // nil until it is computed
}

// mostRemovals is the number of sets of examples whose posteriors are kept.
const mostRemovals = 4

// of returns the removal of these rows, which may be another request's.
func (r *refits) of(rows []int) *removal {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	at := slices.IndexFunc(r.latest, func(one *removal) bool { return slices.Equal(one.rows, rows) })
	one := &removal{rows: rows}
	if at >= 0 {
		one = r.latest[at]
		r.latest = slices.Delete(r.latest, at, at+1)
	}
	r.latest = slices.Insert(r.latest, 0, one)
	r.latest = r.latest[:min(len(r.latest), mostRemovals)]
	return one
}

func (r *refits) predict(ctx context.Context, a *answer, rows []int) (*inference.Predictions, string, error) {
	one := r.of(rows)
	one.mutex.Lock()
	latent := one.latent
	if latent == nil {
		p, err := r.model.Fit(ctx, counterfactual.Without(rows...))
		if err != nil {
			one.mutex.Unlock()
			return nil, "", r.lost(err)
		}
		latent, one.latent = p, p
	}
	one.mutex.Unlock()
	p, err := r.s.posterior.PredictBy(ctx, r.s.posterior.Changed(latent), r.s.problem.Task, a.batch, nil, r.s.link)
	return p, "refit", err
}

// lost says that a set of examples cannot be taken out.
func (r *refits) lost(err error) error {
	if interrupted(err) || errors.Is(err, context.Canceled) {
		return err
	}
	return refuse(422, "undefined", fmt.Errorf("without: %w; take others out", err))
}

// without says what would be predicted without training examples at these positions.
func (s *service) without(ctx context.Context, in *input, a *answer, rows []int) (*without, error) {
	other, order, err := s.remover.predict(ctx, a, rows)
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
		w.Rows[k] = s.problem.Examples.Train.Rows[i]
	}
	if names := s.problem.Task.ClassNames(); names != nil {
		w.ClassName, w.ClassBefore = names[problem.LargestClass(mean)], names[problem.LargestClass(a.predicted.Mean.RawRowView(0))]
	}
	return w, nil
}
