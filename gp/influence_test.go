package gp

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"
)

// An example that fixes the function alone has no first-order removal.
func TestRemovalUndefined(t *testing.T) {
	one := func(v float64) *mat.Dense { return mat.NewDense(1, 1, []float64{v}) }
	q := []float64{0}
	RemovalFrom(q, one(4), one(0.5), nil, []float64{1})
	require.True(t, math.IsNaN(q[0]), "1 − RᵀhR = 0")
	// The same 1 − RᵀhR = 1e-7 has digits left of a small prior covariance and
	// none of a large one.
	h := one((1 - 1e-7) * 4)
	RemovalFrom(q, h, one(0.5), one(8), []float64{1})
	require.InEpsilon(t, 1e7, q[0], 1e-6)
	RemovalFrom(q, h, one(0.5), one(8e3), []float64{1})
	require.True(t, math.IsNaN(q[0]), "RᵀκR = 2000")
}
