package network_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize/network"
)

// TestLoadedProducts compares products at inputs that are loaded tile by tile with those at inputs in memory.
func TestLoadedProducts(t *testing.T) {
	const n = 700 // several chunks of examples, and a last one that is not full
	job := jobs()[1]
	net := testref.Must(network.Sequential(job.in, job.layers[:len(job.layers)-5]...))(t)
	d, c, p := net.Dims()
	rng := rand.New(rand.NewPCG(7, 8))
	x, u, v := gaussianMatrix(rng, n, d), gaussianMatrix(rng, n, c).RawMatrix().Data, gaussianMatrix(rng, 1, p).RawMatrix().Data
	held := testref.Must(net.Products(x))(t)
	ju, jv := make([]float64, p), make([]float64, n*c)
	require.NoError(t, held.MulTransVecTo(t.Context(), ju, u))
	require.NoError(t, held.MulVecTo(t.Context(), jv, v))
	for _, tile := range []int{1, 300, n, 5 * n} {
		rows := 0
		loaded := net.LoadedProducts(n, tile, func(lo, hi int) (*mat.Dense, error) {
			rows += hi - lo
			return mat.DenseCopyOf(x.Slice(lo, hi, 0, d)), nil
		})
		got := make([]float64, p)
		for range 2 { // what the first product leaves must not show in the second
			require.NoError(t, loaded.MulTransVecTo(t.Context(), got, u))
			testref.RequireClose(t, got, ju, 1e-12, "Jᵀu")
		}
		got = make([]float64, n*c)
		require.NoError(t, loaded.MulVecTo(t.Context(), got, v))
		require.Equal(t, jv, got, "J v, whose rows do not depend on each other")
		require.Equal(t, 3*n, rows)
	}
}

// TestLoadedProductsRefuse checks that a product ends with the error of load, and with an input that is not finite.
func TestLoadedProductsRefuse(t *testing.T) {
	net := testref.Must(network.Sequential(network.Shape{3}, network.Dense{Units: 2}))(t)
	_, c, p := net.Dims()
	gone, bad := errors.New("gone"), mat.NewDense(2, 3, []float64{1, 2, 3, 4, math.NaN(), 6})
	for _, q := range []struct {
		load func(lo, hi int) (*mat.Dense, error)
		says string
	}{
		{func(int, int) (*mat.Dense, error) { return nil, gone }, "network: loading examples 0 to 1: gone"},
		{func(int, int) (*mat.Dense, error) { return bad, nil }, "network: examples from 0: "},
	} {
		loaded := net.LoadedProducts(2, 2, q.load)
		require.ErrorContains(t, loaded.MulTransVecTo(t.Context(), make([]float64, p), make([]float64, 2*c)), q.says)
		v := make([]float64, p)
		v[0] = 1
		require.ErrorContains(t, loaded.MulVecTo(t.Context(), make([]float64, 2*c), v), q.says)
	}
	require.Panics(t, func() { net.LoadedProducts(0, 2, nil) })
	require.Panics(t, func() { net.LoadedProducts(4, 0, nil) })
}
