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

// The moments without an example are undefined where its removal is, and otherwise
// exact.
func TestLeaveOneOutFrom(t *testing.T) {
	one := func(v float64) *mat.Dense { return mat.NewDense(1, 1, []float64{v}) }
	mean, cov := []float64{0}, one(0)
	LeaveOneOutFrom(mean, cov, one(4), one(0.5), nil, []float64{3}, []float64{1})
	require.True(t, math.IsNaN(mean[0]) && math.IsNaN(cov.At(0, 0)), "1 − RᵀhR = 0")
	// h = (1/v + Λ)⁻¹ of a variance v = 2 without the example and Λ = 0.25.
	LeaveOneOutFrom(mean, cov, one(1/(0.5+0.25)), one(0.5), one(9), []float64{3}, []float64{0.7})
	require.InDelta(t, 2, cov.At(0, 0), 1e-14)
	require.InDelta(t, 3-2*0.7, mean[0], 1e-14)
	LeaveOneOutFrom(mean, nil, one(1/(0.5+0.25)), one(0.5), nil, []float64{3}, []float64{0.7})
	require.InDelta(t, 3-2*0.7, mean[0], 1e-14, "a nil covariance is skipped")
	LeaveOneOutFrom(nil, cov, one(5), one(0), nil, []float64{3}, []float64{0})
	require.Equal(t, 5.0, cov.At(0, 0), "a saturated site")
}
