package store

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReader checks that sizes are checked, and that the first error stays.
func TestReader(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.gp")
	rows := [][]float64{{1, 2}, nil, {3}, {4, 5, 6}}
	require.NoError(t, Write(path, "test", 1, func(w *Writer) error {
		w.JSON("a.head", 7)
		w.FloatRows("a.rows", func(yield func([]float64) bool) {
			for _, r := range rows {
				yield(r)
			}
		})
		w.Bytes("a.odd", []byte("seven.."))
		return nil
	}))
	f, err := Open(path, "test", 1)
	require.NoError(t, err)
	defer f.Close()
	require.Equal(t, []string{"a.head", "a.rows", "a.odd"}, f.Sections())
	require.Equal(t, path, f.Path())
	r := f.Reader("a.")
	var head int
	r.JSON("head", &head)
	require.Equal(t, 7, head)
	require.True(t, r.Has("rows"))
	require.False(t, r.Has("a.rows"))
	require.Equal(t, []float64{1, 2, 3, 4, 5, 6}, r.Floats("rows", 2, 3))
	require.NoError(t, r.Err())
	for _, dims := range [][]int{{7}, {-2, -3}, {-6}, {0}, {math.MaxInt, 2}, {1 << 33, 1 << 31}, {3, 1 << 62}} {
		r := f.Reader("a.")
		require.Nil(t, r.Floats("rows", dims...))
		require.ErrorContains(t, r.Err(), `section "a.rows" has 6 numbers`)
		require.ErrorContains(t, r.Err(), path)
		require.Nil(t, r.Floats("rows", 6), "the first error stays")
		require.Equal(t, r.Err(), r.Fail("remedy", "another problem"))
	}
	r.Floats("odd", 1)
	require.ErrorContains(t, r.Err(), "does not hold numbers")
	r = f.Reader("a.")
	require.Nil(t, r.Floats("none", 1))
	require.ErrorContains(t, r.Err(), `no section "a.none"`)
	r.JSON("head", &head)
	r = f.Reader("a.")
	r.Stop(nil)
	require.NoError(t, r.Err())
	r.Stop(os.ErrClosed)
	r.Stop(nil)
	require.Equal(t, os.ErrClosed, r.Fail("remedy", "problem"))
	require.ErrorContains(t, f.Reader("a.").Fail("a remedy", "a problem of %d", 3), path+": a problem of 3; a remedy")
}
