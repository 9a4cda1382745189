package saved_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/saved"
	"github.com/funcgp/funcgp/internal/store"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
)

// TestFitTellsOthers: a checkpoint is that of its fit and its examples alone. Each difference has its name, targets by the
// last bit.
func TestFitTellsOthers(t *testing.T) {
	type fit struct {
		of            string
		version, n, c int
		y             *mat.Dense
		identity      *saved.Identity
	}
	g := fittedWith(t)
	f := fit{"sparse.Fit", 3, rows, 2, g.y, saved.Of(g.source(), g.kernel())}
	made := func(f fit) *saved.Fit {
		return testref.Must(saved.NewFit(t.Context(), f.of, f.version, f.n, f.c, f.y, nil, f.identity))(t)
	}
	file := testkit.Written(t, func(w *store.Writer) error {
		made(f).Save(w, "at.")
		return nil
	})
	for _, o := range []struct {
		change func(f *fit)
		want   string
	}{
		{func(*fit) {}, ""},
		{func(f *fit) { f.version = 4 }, "is a checkpoint in version 3 of its format, this program reads version 4"},
		{func(f *fit) { f.of = "kept.Refit" }, "its kind, sparse.Fit and not kept.Refit"},
		{func(f *fit) { f.n = 7 }, "the number of training examples, 600 and not 7"},
		{func(f *fit) { f.c = 3 }, "the number of outputs, 2 and not 3"},
		{func(f *fit) { f.y = nil }, "differs in the targets"},
		{func(f *fit) {
			f.y = mat.DenseCopyOf(f.y)
			f.y.Set(9, 0, math.Nextafter(f.y.At(9, 0), 2))
		}, "differs in the targets"},
		{func(f *fit) {
			other := g
			other.replaceRows(1)
			f.identity = saved.Of(other.source(), other.kernel())
		}, "the inputs are others"},
	} {
		other := f
		o.change(&other)
		r, is := file.Reader("at."), made(other)
		if is.Check(r); r.Err() == nil {
			is.Identity.Check(t.Context(), r, "")
		}
		if o.want == "" {
			require.NoError(t, r.Err())
			continue
		}
		require.ErrorContains(t, r.Err(), o.want)
		require.ErrorContains(t, r.Err(), "start again without it", "the remedy")
	}
}
