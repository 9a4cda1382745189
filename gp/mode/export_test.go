package mode

import (
	"context"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// FindMatchWithin is FindMatch with other bounds of the search, where they are not 0.
func FindMatchWithin(ctx context.Context, src linearize.Source, y *gp.Targets, prior ntk.Prior, theta []float64, o *Options, tolerance, least float64, directions, passes int) (*Match, error) {
	b := bounds
	if tolerance > 0 {
		b.tolerance = tolerance
	}
	if least > 0 {
		b.least = least
	}
	if directions > 0 {
		b.directions = directions
	}
	if passes > 0 {
		b.passes = passes
	}
	return findMatch(ctx, src, y, prior, theta, o, b)
}
