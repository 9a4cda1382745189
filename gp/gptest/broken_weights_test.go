package gptest_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/gptest"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/ntk"
)

// weights runs the suite with a posterior over parameters that is altered.
func weights(a alteredWeights) func(t *testing.T) {
	return func(t *testing.T) {
		x, err := curve{theta: start}.Linearize(t.Context(), mat.NewDense(5, 1, []float64{-2, -0.5, 0.1, 1, 3}))
		if err != nil {
			t.Fatal(err)
		}
		s := testref.Must(gp.NewSites(gp.NewTargets(mat.NewDense(5, 1, []float64{0, 1, 1, 0, 1}), logistic{}), x.F))(t)
		a.Weights, err = weightspace.FitStructure(t.Context(), weightspace.Diagonal, x, s, flat{}, start, nil)
		if err != nil {
			t.Fatal(err)
		}
		gptest.Weights(t, gptest.WeightsCase{
			LatentCase: gptest.LatentCase{Kernel: ntk.New(flat{}, start), Test: x, Tol: 1e-12}, Weights: a, Theta: start,
		})
	}
}

// alteredWeights is a posterior over parameters with another center or determinant, with
// draws that are changed, or that does not look at the context.
type alteredWeights struct {
	weightspace.Weights
	center []float64
	logDet float64 // added
	draw   func(draws int, v float64) float64
	deaf   bool
}

func (a alteredWeights) Center() []float64 {
	if a.center != nil {
		return a.center
	}
	return a.Weights.Center()
}

func (a alteredWeights) LogDet() float64 { return a.Weights.LogDet() + a.logDet }

func (a alteredWeights) SampleTo(ctx context.Context, dst *mat.Dense, rng *rand.Rand) error {
	if a.deaf {
		ctx = context.Background()
	}
	err := a.Weights.SampleTo(ctx, dst, rng)
	if n, _ := dst.Dims(); err == nil && a.draw != nil {
		dst.Apply(func(_, _ int, v float64) float64 { return a.draw(n, v) }, dst)
	}
	return err
}

// once is 1 where one draw is asked for, and 0 otherwise.
func once(draws int) float64 {
	if draws == 1 {
		return 1
	}
	return 0
}
