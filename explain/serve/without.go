package serve

import (
	"context"
	"slices"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/option"
)

// orders explains to a reader the two ways to predict without training examples.
var orders = map[string]string{
	"refit": "This is the prediction, changed by what the linearized model changes by when it is fitted again without them.",
	"first": "This is the sum of what leaving out each of them changes to first order, with the posterior covariance as it was.",
}

// predictWithout predicts an input as if training rows had not been there. It refits the linearized model if the
// posterior has a factor that makes this fast, and otherwise adds up first-order changes.
func (s *service) predictWithout(ctx context.Context, in *input, rows []int) (*funcgp.Prediction, error) {
	predict := s.front.Without
	if !s.refits {
		predict = s.front.WithoutToFirstOrder
	}
	rows = slices.Sorted(slices.Values(rows))
	list, err := predict(ctx, in.rows, rows...)
	if err != nil {
		if interrupted(err) {
			return nil, err
		}
		return nil, refuse(unprocessable, "undefined", option.Errorf("{without}: %w", err))
	}
	return &list[0], nil
}

// without returns what would be predicted without training rows.
func (s *service) without(ctx context.Context, in *input, with *funcgp.Prediction, rows []int) (*without, error) {
	p, err := s.predictWithout(ctx, in, rows)
	if err != nil {
		return nil, err
	}
	w := &without{Rows: slices.Sorted(slices.Values(rows)), Order: "first", Mean: p.Mean, Probability: p.Probability, ProbabilitySD: p.ProbabilitySD, ObservationMean: p.ObservationMean}
	if s.refits {
		w.Order = "refit"
	}
	if w.Class = s.classOf(p); w.Class.Finite() {
		w.ClassName, w.ClassBefore = s.front.ClassName(w.Class), s.front.ClassName(s.classOf(with))
	}
	return w, nil
}

// classOf returns the label of the class of the largest output of a prediction.
func (s *service) classOf(p *funcgp.Prediction) result.Float {
	mean := make([]float64, len(p.Mean))
	for i, v := range p.Mean {
		mean[i] = float64(v)
	}
	label, _ := s.front.ClassOf(mean)
	return label
}
