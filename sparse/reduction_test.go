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

// TestReductionRoots: the root of K_ZZ⁻¹ − A⁻¹ by eigenvalues, for a singular ΦΛΦᵀ, is the triangular one where that
// exists.
func TestReductionRoots(t *testing.T) {
	ctx := t.Context()
	x := testkit.RandomBatch(rand.New(rand.NewPCG(5, 6)), 30, 2, 40)
	k := ntk.New(testref.Must(ntk.NewIsotropic(1, nil))(t), make([]float64, 40))
	rows := []int{2, 11, 17}
	p := testref.Must(Fit(ctx, k, x, gp.UniformSites(30, 2, .1), &Inducing{Rows: rows, Batch: testref.Must(x.Gather(ctx, rows))(t)}, nil))(t)
	triangle, ok, err := p.reduction(ctx)
	require.NoError(t, err)
	require.True(t, ok)
	eigen := testref.Must(p.eigenRoot(ctx))(t)
	var want, got mat.Dense
	want.Mul(dense.View(triangle), dense.View(triangle).T())
	got.Mul(dense.View(eigen), dense.View(eigen).T())
	testkit.RequireClose(t, "K_ZZ⁻¹ − A⁻¹", &got, &want, 1e-10)
}
