package dattri

import (
	"context"
	"math"

	"github.com/funcgp/funcgp/explain/evaluate"
	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/newton"
	"github.com/funcgp/funcgp/ntk"
)

// match returns the precision at which the linearized model's mode fits the training rows as
// well as the network does (E21), from modes in weight space. Slopes are those between modes.
func match(ctx context.Context, q *evaluate.Problem, start float64) (*gp.Match, error) {
	x, err := q.Network.Linearize(ctx, q.X)
	if err != nil {
		return nil, err
	}
	theta := q.Network.Theta()
	var from []float64
	mode := func(t float64) (*weightspace.Mode, error) {
		prior, err := ntk.NewIsotropic(start*math.Exp(t), nil)
		if err != nil {
			return nil, err
		}
		o := &weightspace.ModeOptions{Start: from, Outputs: x.F, Gradient: 1e-3}
		m, err := weightspace.FindMode(ctx, x, q.Y, q.Likelihood, prior, theta, o)
		if err == nil {
			from = m.Theta
		}
		return m, err
	}
	type point struct{ t, loglik float64 }
	var last *point
	at := func(_ context.Context, t float64) (gp.MatchTrial, error) {
		if last == nil || last.t == t {
			m, err := mode(t + .2)
			if err != nil {
				return gp.MatchTrial{}, err
			}
			last = &point{t + .2, m.Sites.LogLik}
		}
		m, err := mode(t)
		if err != nil {
			return gp.MatchTrial{}, err
		}
		now := &point{t, m.Sites.LogLik}
		slope := (now.loglik - last.loglik) / (now.t - last.t)
		last = now
		return gp.MatchTrial{LogLik: now.loglik, Slope: slope, Arrived: true}, nil
	}
	prior, err := ntk.NewIsotropic(1, nil)
	if err != nil {
		return nil, err
	}
	n, c := x.F.Dims()
	mean := make([]float64, n*c)
	ntk.New(prior, theta, nil).MeanTo(mean, x)
	lik := func(f []float64) float64 { return newton.LogLik(q.Likelihood, q.Y, f) }
	return gp.FindMatch(ctx, lik(dense.Flat(x.F)), lik(mean), &gp.MatchOptions{Root: true}, at, nil)
}
