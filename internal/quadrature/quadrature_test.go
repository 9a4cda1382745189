package quadrature

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"
)

// The eigenvalues and first components are those of the dense solver, for
// matrices of ordinary and of graded size, and with zeros beside the diagonal.
func TestEigen(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	for _, n := range []int{1, 2, 3, 17, 60} {
		for _, grade := range []float64{1, 3} {
			diag, off := make([]float64, n), make([]float64, n-1)
			whole := mat.NewSymDense(n, nil)
			for i := range n {
				size := math.Pow(grade, float64(-i))
				diag[i] = size * (2 + rng.Float64())
				whole.SetSym(i, i, diag[i])
				if i < n-1 {
					if i != 7 {
						off[i] = size * rng.Float64() / 2
					}
					whole.SetSym(i, i+1, off[i])
				}
			}
			values, first, ok := eigen(diag, off)
			require.True(t, ok)
			var eig mat.EigenSym
			require.True(t, eig.Factorize(whole, true))
			var v mat.Dense
			eig.VectorsTo(&v)
			order := make([]int, n)
			for i := range order {
				order[i] = i
			}
			slices.SortFunc(order, func(a, b int) int { return cmp.Compare(values[a], values[b]) })
			for i, want := range eig.Values(nil) {
				require.InDelta(t, want, values[order[i]], 1e-13*mat.Max(whole))
				require.InDelta(t, math.Abs(v.At(0, i)), math.Abs(first[order[i]]), 1e-10)
			}
		}
	}
}
