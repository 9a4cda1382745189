package autoencoder

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/store"
)

// A posterior that is read predicts as the one that was written, bit for bit, and for no
// other network.
func TestSave(t *testing.T) {
	a, x := small(t), curves(20, 1)
	p := testref.Must(Fit(t.Context(), a, x, &FitOptions{Prior: 3, Noise: 0.5}))(t)
	path := filepath.Join(t.TempDir(), "post")
	require.NoError(t, p.Save(path, "by hand"))
	q, made, err := Load(path, a)
	require.NoError(t, err)
	require.Equal(t, "by hand", made)
	require.Equal(t, []float64{3, 0.5}, []float64{q.Prior(), q.Noise()})
	want := testref.Must(p.Draw(t.Context(), x, &DrawOptions{Samples: 3}))(t)
	got := testref.Must(q.Draw(t.Context(), x, &DrawOptions{Samples: 3}))(t)
	require.Equal(t, want, got)

	var e *store.Error
	_, _, err = Load(path, small(t, 3))
	require.ErrorAs(t, err, &e)
	require.ErrorContains(t, err, "another network")
	for _, bad := range []postHeader{{Prior: -1, Noise: 1}, {Noise: 0}, {Noise: 1}} {
		bad.Network, bad.P = p.print(), len(p.h)
		require.NoError(t, store.Write(path, postKind, postVersion, func(w *store.Writer) error {
			w.JSON("about", bad)
			w.Floats("ggn", make([]float64, len(p.h)))
			return nil
		}))
		_, _, err = Load(path, a)
		require.ErrorContains(t, err, "no precisions")
	}
}
