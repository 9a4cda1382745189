package score

import (
	"context"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/internal/par"
)

// A linkSurface is a surface for any link and any likelihood. Its derivatives are central differences. The point
// where they vanish is as smooth a function of the moments as the link is.
type linkSurface struct {
	link        predictive.Link
	lik         glm.Likelihood
	rows        *scoredRows
	strays      strays // for RateKept; else nil
	temperature bool   // the mean has a temperature
}

// Values implements surface.
func (l *linkSurface) Values(ctx context.Context, at []predictive.ScalePoint, every int) ([]float64, error) {
	rows := l.rows.everyNth(every)
	n := len(rows.kept)
	tiles := par.Tiles(n, scoreTile)
	logp := make([]float64, len(at)*n)
	err := par.Do(ctx, len(at)*tiles, func(i int) error {
		k, tile := i/tiles, i%tiles
		c := &Calibration{Scale: math.Exp(at[k].Scale), Temperature: math.Exp(at[k].Other), RateKept: l.strays != nil}
		return rows.tile(tile, func(lo, hi int, y, mean, cov *mat.Dense) error {
			_, mean, cov, err := c.Apply(l.lik, mean, cov)
			if err != nil {
				return err
			}
			return l.link.LogPredictiveTo(logp[k*n+lo:k*n+hi], l.lik, y, mean, cov)
		})
	})
	values := make([]float64, len(at))
	for k := range values {
		values[k] = l.strays.nll(logp[k*n:(k+1)*n], rows.weights, every)
	}
	return values, err
}

// Settle implements surface.
func (l *linkSurface) Settle(context.Context, predictive.ScalePoint) (bool, error) { return false, nil }

// differenceStep is the step of the central differences in a logarithm.
const differenceStep = 0.02

// Expand implements surface.
func (l *linkSurface) Expand(ctx context.Context, at predictive.ScalePoint) (d predictive.ScaleSlopes, err error) {
	const h = differenceStep
	moves := []predictive.ScalePoint{{}, pointAt(-h, 0), pointAt(h, 0)}
	if l.temperature {
		moves = append(moves, pointAt(0, -h), pointAt(0, h), pointAt(h, h), pointAt(h, -h), pointAt(-h, h), pointAt(-h, -h))
	}
	for i := range moves {
		moves[i].Scale += at.Scale
		moves[i].Other += at.Other
	}
	v, err := l.Values(ctx, moves, 1)
	if err != nil {
		return d, err
	}
	d.Value, d.Scale, d.ScaleScale = v[0], (v[2]-v[1])/(2*h), (v[2]-2*v[0]+v[1])/(h*h)
	if l.temperature {
		d.Other, d.OtherOther = (v[4]-v[3])/(2*h), (v[4]-2*v[0]+v[3])/(h*h)
		d.Both = (v[5] - v[6] - v[7] + v[8]) / (4 * h * h)
	}
	return d, nil
}
