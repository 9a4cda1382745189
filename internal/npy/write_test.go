package npy

import (
	"bytes"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// What Write writes is read again, and its data begin where NumPy wants them.
func TestWrite(t *testing.T) {
	for _, shape := range [][]int{{6}, {2, 3}, {1, 2, 3}} {
		var b bytes.Buffer
		v := []float64{1, -2.5, math.Inf(1), math.MaxFloat64, 5e-324, 0}
		require.NoError(t, Write(&b, v, shape...))
		require.Zero(t, (b.Len()-8*len(v))%64)
		a, err := Read(&b, 0)
		require.NoError(t, err)
		require.Equal(t, &Array{Type: "<f8", Shape: shape, Floats: v}, a)
	}
}
