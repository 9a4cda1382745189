//go:build gc && !noasm

package vector

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// Both kernels give the same bits.
func TestExpKernelsAgree(t *testing.T) {
	if !widest {
		t.Skip("this processor has one kernel")
	}
	r := rand.New(rand.NewPCG(7, 8))
	x, one, other := make([]float64, 8000), make([]float64, 8000), make([]float64, 8000)
	for i := range x {
		x[i] = 1600*r.Float64() - 800
	}
	expAVX512(&one[0], &x[0], len(x))
	expAVX2(&other[0], &x[0], len(x))
	require.Equal(t, one, other)
}
