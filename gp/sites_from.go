package gp

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/linearize"
)

// SitesFrom returns the sites at f(x;θ*) of all examples of x. It passes over x
// once. y holds N rows of targets. The errors are those of NewSites and of x.
func SitesFrom(ctx context.Context, x linearize.Source, y *mat.Dense, lik Likelihood) (*Sites, error) {
	if n, _ := y.Dims(); n != x.Len() {
		return nil, fmt.Errorf("gp: %d rows of targets for %d examples", n, x.Len())
	}
	f, err := linearize.Outputs(ctx, x)
	if err != nil {
		return nil, err
	}
	return NewSites(y, f, lik)
}

// Rows returns a copy of the sites of some examples, in the order of rows. For a
// row of −1 it returns a site that carries no information: f, r and Λ are zero.
// LogLik is NaN, because only the sum over all examples is known; the caller may
// set it.
func (s *Sites) Rows(rows []int) *Sites {
	c := s.outputs()
	pick := func(m *mat.Dense, per int) *mat.Dense {
		out := mat.NewDense(len(rows)*per, c, nil)
		for i, r := range rows {
			for a := 0; a < per && r >= 0; a++ {
				out.SetRow(i*per+a, m.RawRowView(r*per+a))
			}
		}
		return out
	}
	return &Sites{F: pick(s.F, 1), Residual: pick(s.Residual, 1), Lambda: pick(s.Lambda, c), Root: pick(s.Root, c), LogLik: math.NaN()}
}
