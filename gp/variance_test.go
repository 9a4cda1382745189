package gp_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/testref"
)

// A variance that rounding made negative is zero with its row and column, and
// one that is more negative names its example and output.
func TestSettleVariances(t *testing.T) {
	cov := mat.NewDense(4, 4, []float64{
		1, 2, 3, 4,
		2, -1e-13, 5, 6,
		3, 5, 7, 8,
		4, 6, 8, 9})
	prior := []float64{1, 1, 10, 10}
	require.NoError(t, gp.SettleVariances(cov, prior, 1e-12, 5, 2))
	require.Equal(t, []float64{1, 0, 3, 4, 0, 0, 0, 0, 3, 0, 7, 8, 4, 0, 8, 9}, cov.RawMatrix().Data)
	cov.Set(3, 3, -1e-10)
	negative := testref.As[*gp.NegativeVarianceError](t, gp.SettleVariances(cov, prior, 1e-12, 5, 2))
	require.Equal(t, gp.NegativeVarianceError{Row: 6, Output: 1, Variance: -1e-10, Prior: 10}, *negative)
	cov.Set(2, 2, math.NaN())
	bad := testref.As[*gp.NotFiniteError](t, gp.SettleVariances(cov, prior, 1e-12, 5, 2))
	require.Equal(t, [2]int{6, 0}, [2]int{bad.Row, bad.Output})
}
