package dattri

import (
	"context"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/mode"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/studies/evaluate"
)

// match returns the factor on the precision start at which the linearized model's mode fits the training
// rows as well as the network does (E21).
func match(ctx context.Context, q *evaluate.Problem, start float64) (*mode.Match, error) {
	x, err := q.Network.Linearize(ctx, q.X)
	if err != nil {
		return nil, err
	}
	prior, err := ntk.NewIsotropic(start, nil)
	if err != nil {
		return nil, err
	}
	return mode.FindMatch(ctx, x, gp.NewTargets(q.Y, q.Likelihood), prior, q.Network.Theta(), &mode.Options{Outputs: x.F})
}
