package sparse

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/ntk"
)

// TestReductionRoots: the root of ΦΛΦᵀ by pivoted Cholesky, for a singular one, gives what the triangular one gives where
// that exists.
func TestReductionRoots(t *testing.T) {
	ctx := t.Context()
	x := testkit.RandomBatch(rand.New(rand.NewPCG(5, 6)), 30, 2, 40)
	k := ntk.New(testref.Must(ntk.NewIsotropic(1, nil))(t), make([]float64, 40))
	rows := []int{2, 11, 17}
	p := testref.Must(Fit(ctx, k, x, gp.UniformSites(30, 2, .1), &Inducing{Rows: rows, Batch: testref.Must(x.Gather(ctx, rows))(t)}, nil))(t)
	triangle, ok, err := upperRoot(ctx, p.sums.symmetric())
	require.NoError(t, err)
	require.True(t, ok)
	pivoted := testref.Must(pivotedRoot(ctx, p.sums.symmetric()))(t)
	var want, got mat.Dense
	want.Mul(dense.View(triangle), dense.View(triangle).T())
	got.Mul(dense.View(pivoted), dense.View(pivoted).T())
	testkit.RequireClose(t, "ΦΛΦᵀ", &got, &want, 1e-10)
	// SSᵀ = K_ZZ⁻¹ − A⁻¹ = G(I − A'⁻¹)Gᵀ
	s := testref.Must(p.root(ctx, false))(t)
	require.True(t, s.upper)
	one := dense.New(6, 6)
	for i := range 6 {
		one.Data[i*7] = 1
	}
	require.NoError(t, p.full(ctx, one))
	for i := range one.Data {
		one.Data[i] *= -1
	}
	for i := range 6 {
		one.Data[i*7]++
	}
	left := testref.Must(p.b.weights(ctx, one))(t)
	across := dense.New(6, 6)
	dense.TransposeTo(across, left)
	want.CloneFrom(dense.View(testref.Must(p.b.weights(ctx, across))(t)))
	got.Mul(dense.View(s.General), dense.View(s.General).T())
	testkit.RequireClose(t, "K_ZZ⁻¹ − A⁻¹", &got, &want, 1e-10)
}
