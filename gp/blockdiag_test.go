package gp

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/testref"
)

// randomBlocks returns n blocks, C×C each.
func randomBlocks(rng *rand.Rand, n, c int, diagonal bool) blockDiag {
	m := mat.NewDense(n*c, c, nil)
	m.Apply(func(i, j int, _ float64) float64 {
		if diagonal && i%c != j {
			return 0
		}
		return rng.NormFloat64()
	}, m)
	return newBlockDiag(m)
}

// Rows that are multiplied together have the bits of each by itself.
func TestBlockDiagMulBits(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 1))
	for _, c := range []int{1, 2, 3, 10, 31, 70} {
		for _, rows := range []int{1, fewRows, 65, 150} {
			for _, diagonal := range []bool{false, true} {
				b := randomBlocks(rng, 9, c, diagonal)
				if b.isWide() {
					continue // with other rounding
				}
				a := dense.New(rows, 9*c)
				for i := range a.Data {
					a.Data[i] = rng.NormFloat64()
				}
				want := slices.Clone(a.Data)
				for i := range rows {
					b.mulRow(want[i*9*c:(i+1)*9*c], 0)
				}
				testref.Procs(t, 3)
				require.NoError(t, b.mul(t.Context(), a))
				require.Equal(t, want, a.Data, "C=%d, %d rows", c, rows)
			}
		}
	}
}
