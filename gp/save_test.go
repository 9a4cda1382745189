package gp_test

import (
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/store"
)

// TestSavedPosteriorPredictsTheSame checks that a posterior predicts bit for
// bit the same after a round trip, can be refitted, and refuses other data.
func TestSavedPosteriorPredictsTheSame(t *testing.T) {
	for _, c := range []int{1, 3} {
		k, x, y := given(40, c)
		test := x.Slice(3, 9)
		fit, err := gp.Refit(t.Context(), k, x, y, likelihoodFor(c), nil)
		require.NoError(t, err)
		path := filepath.Join(t.TempDir(), "a.gp")
		require.NoError(t, store.Write(path, "test", 1, fit.Save))
		f, err := store.Open(path, "test", 1)
		require.NoError(t, err)
		defer f.Close()
		back, err := gp.Load(f, k, x, nil)
		require.NoError(t, err)
		requireSame(t, fit, back, test)
		require.Equal(t, fit.EvidenceRefit(), back.EvidenceRefit())
		require.Equal(t, fit.Warnings(), back.Warnings())
		again, err := back.Refit(t.Context(), y, likelihoodFor(c))
		require.NoError(t, err)
		requireSame(t, fit, again, test)
		_, err = gp.Load(f, k, x.Slice(0, 39), nil)
		require.ErrorContains(t, err, "40 training examples")
	}
}

func requireSame(t *testing.T, a, b *gp.Exact, x *linearize.Batch) {
	t.Helper()
	var am, ac, bm, bc mat.Dense
	require.NoError(t, a.PredictTo(&am, &ac, x))
	require.NoError(t, b.PredictTo(&bm, &bc, x))
	require.Equal(t, am, bm)
	require.Equal(t, ac, bc)
	require.Equal(t, a.Alpha(), b.Alpha())
	require.Equal(t, a.PseudoTargets(), b.PseudoTargets())
	as, bs := mat.NewDense(3, x.Len()*x.Outputs(), nil), mat.NewDense(3, x.Len()*x.Outputs(), nil)
	require.NoError(t, a.SampleTo(as, x, rand.New(rand.NewPCG(1, 2))))
	require.NoError(t, b.SampleTo(bs, x, rand.New(rand.NewPCG(1, 2))))
	require.Equal(t, as, bs)
}
