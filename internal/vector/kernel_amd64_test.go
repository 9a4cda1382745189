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
