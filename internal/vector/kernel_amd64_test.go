//go:build gc && !noasm

package vector

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// Both kernels give the same bits.
func TestKernelsAgree(t *testing.T) {
	if !widest {
		t.Skip("this processor has one kernel")
	}
	r := rand.New(rand.NewPCG(7, 8))
	x, one, other := make([]float64, 8000), make([]float64, 8000), make([]float64, 8000)
	for i := range x {
		x[i] = 5 * r.NormFloat64()
	}
	tanhAVX512(&one[0], &x[0], len(x))
	tanhAVX2(&other[0], &x[0], len(x))
	require.Equal(t, one, other)
}

func TestCopyKernels(t *testing.T) {
	if !fast {
		t.Skip("this processor has no kernel")
	}
	kernels := map[int][]func(dst *float64, ldd int, src *float64, lds, rows, cols int){1: {copyRowsAVX2}, 2: {copyRows2AVX2}}
	if widest {
		kernels[1], kernels[2] = append(kernels[1], copyRowsAVX512), append(kernels[2], copyRows2AVX512)
	}
	for step, all := range kernels {
		for _, kernel := range all {
			checkCopy(t, func(dst []float64, ldd int, src []float64, lds, step, rows, cols int) {
				kernel(&dst[0], ldd, &src[0], lds, rows, cols)
			}, step)
		}
	}
}

func TestAffineKernelsAgree(t *testing.T) {
	if !widest {
		t.Skip("this processor has one kernel")
	}
	const rows, extra, rank, n = 11, 1, 9, 64
	r := rand.New(rand.NewPCG(9, 10))
	a, z := make([]float64, rows*(rank+1)), make([]float64, rank*n)
	for i := range a {
		a[i] = 10 * r.NormFloat64()
	}
	for i := range z {
		z[i] = r.NormFloat64()
	}
	var l, e, inverse [2][]float64
	for k, kernel := range []func(l, e, inverse, a, z *float64, rows, extra, rank, ld, ldz, n int){expAffineAVX512, expAffineAVX2} {
		l[k], e[k], inverse[k] = make([]float64, rows*n), make([]float64, rows*n), make([]float64, n)
		kernel(&l[k][0], &e[k][0], &inverse[k][0], &a[0], &z[0], rows, extra, rank, n, n, n)
	}
	require.Equal(t, l[0], l[1])
	require.Equal(t, e[0], e[1])
	require.Equal(t, inverse[0], inverse[1])
}

func TestLargestKernelsAgree(t *testing.T) {
	if !widest {
		t.Skip("this processor has one kernel")
	}
	const c = 7
	r := rand.New(rand.NewPCG(5, 6))
	table, at := make([]float64, 200), make([]int, 9*c)
	for i := range table {
		table[i] = r.Float64()
	}
	for i := range at {
		at[i] = r.IntN(len(table) - LargestNodes - 60)
	}
	var one, other [2][c * LargestLanes]float64
	addLargestAVX512(&one[0][0], &one[1][0], &table[0], &table[30], &table[60], &at[0], c, 9, 8)
	addLargestAVX2(&other[0][0], &other[1][0], &table[0], &table[30], &table[60], &at[0], c, 9, 8)
	require.Equal(t, one, other)

	var places [2][9 * c]int
	l := make([]float64, len(at))
	for i := range l {
		l[i] = 10 * r.NormFloat64()
	}
	largestPlacesAVX512(&places[0][0], &l[0], 11.3, 300, 40, c, 9, 8)
	largestPlacesAVX2(&places[1][0], &l[0], 11.3, 300, 40, c, 9, 8)
	require.Equal(t, places[0], places[1])
}
