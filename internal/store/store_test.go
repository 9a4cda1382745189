package store

import (
	"bytes"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/testref"
)

func sample(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.gp")
	require.NoError(t, Write(path, "test", 2, func(w *Writer) error {
		w.JSON("header", map[string]int{"n": 3})
		w.Floats("alpha", []float64{1, -2.5, math.Pi, math.Inf(1), math.Copysign(0, -1)})
		w.Bytes("empty", nil)
		w.Bytes("raw", []byte("seven.."))
		return nil
	}))
	return path
}

func TestRoundTrip(t *testing.T) {
	f := testref.Must(Open(sample(t), "test", 2))(t)
	var h map[string]int
	require.NoError(t, f.JSON("header", &h))
	require.Equal(t, 3, h["n"])
	a := testref.Must(f.Floats("alpha"))(t)
	require.Equal(t, []float64{1, -2.5, math.Pi, math.Inf(1), 0}, a)
	require.True(t, math.Signbit(a[4]))
	b := testref.Must(f.Bytes("raw"))(t)
	require.Equal(t, "seven..", string(b))
	require.True(t, f.Has("empty"))
	require.False(t, f.Has("beta"))
	require.ErrorContains(t, testref.Err(f.Bytes("beta")), `no section "beta"`)
	require.EqualValues(t, 2, f.Version())
	require.NoError(t, f.Close())
	require.NoError(t, f.Close())
}

// readAll reads every section.
func readAll(path string) error {
	f, err := Open(path, "test", 2)
	if err != nil {
		return err
	}
	defer f.Close()
	for name := range f.table {
		if _, err := f.Bytes(name); err != nil {
			return err
		}
	}
	return nil
}

// TestEveryFlippedBitIsFound flips bits of every byte of a file and cuts it at every
// length.
func TestEveryFlippedBitIsFound(t *testing.T) {
	path := sample(t)
	good := testref.Must(os.ReadFile(path))(t)
	require.NoError(t, readAll(path))
	bad := filepath.Join(t.TempDir(), "bad.gp")
	for i := range good {
		for _, bit := range []int{0, 7} {
			b := slices.Clone(good)
			b[i] ^= 1 << bit
			require.NoError(t, os.WriteFile(bad, b, 0o600))
			require.Error(t, readAll(bad), "byte %d bit %d", i, bit)
		}
		require.NoError(t, os.WriteFile(bad, good[:i], 0o600))
		require.Error(t, readAll(bad), "cut at %d", i)
	}
	require.NoError(t, os.WriteFile(bad, append(slices.Clone(good), 0), 0o600))
	require.Error(t, readAll(bad))
}

func TestWrongKindAndVersion(t *testing.T) {
	path := sample(t)
	require.ErrorContains(t, testref.Err(Open(path, "other", 2)), `holds a "test"`)
	require.ErrorContains(t, testref.Err(Open(path, "test", 1)), "version 2")
	require.ErrorContains(t, testref.Err(Open(filepath.Join(t.TempDir(), "absent"), "test", 1)), "cannot be opened")
}

// TestStreamIsFile checks that a pipe gets the bytes of a file, and that content which
// changes in between is found there.
func TestStreamIsFile(t *testing.T) {
	file := testref.Must(os.ReadFile(sample(t)))(t)
	calls := 0
	write := func(changing float64) ([]byte, error) {
		var pipe bytes.Buffer
		err := writeTo(&pipe, "test", 2, func(w *Writer) error {
			calls++
			w.JSON("header", map[string]int{"n": 3})
			w.Floats("alpha", []float64{1, -2.5, math.Pi, math.Inf(1), math.Copysign(changing*float64(calls), -1)})
			w.Bytes("empty", nil)
			w.Bytes("raw", []byte("seven.."))
			return nil
		})
		return pipe.Bytes(), err
	}
	pipe := testref.Must(write(0))(t)
	require.Equal(t, file, pipe)
	require.Equal(t, 2, calls)
	require.ErrorContains(t, testref.Err(write(1)), "the content changed while it was written")
}

// TestFailedWriteLeavesNothing checks that an error in between leaves no file.
func TestFailedWriteLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	err := Write(filepath.Join(dir, "a.gp"), "test", 1, func(w *Writer) error {
		w.JSON("bad", math.NaN())
		return nil
	})
	require.Error(t, err)
	list := testref.Must(os.ReadDir(dir))(t)
	require.Empty(t, list)
}

func FuzzOpen(f *testing.F) {
	f.Add([]byte(magic))
	path := filepath.Join(f.TempDir(), "a.gp")
	if err := Write(path, "test", 2, func(w *Writer) error { w.Floats("a", []float64{1, 2}); return nil }); err != nil {
		f.Fatal(err)
	}
	good := testref.Must(os.ReadFile(path))(f)
	f.Add(good)
	f.Fuzz(func(t *testing.T, b []byte) {
		path := filepath.Join(t.TempDir(), "a.gp")
		require.NoError(t, os.WriteFile(path, b, 0o600))
		_ = readAll(path)
	})
}

// TestChecksum checks that parts give the checksum of the whole, whatever they are.
func TestChecksum(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		b := make([]byte, rng.IntN(3000))
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		want := crc32.Checksum(b, castagnoli)
		cut, part := rng.IntN(len(b)+1), 1+rng.IntN(600)
		require.Equal(t, want, checksum(0, b, part))
		require.Equal(t, want, checksum(checksum(0, b[:cut], part), b[cut:], part), "%d of %d bytes, parts of %d", cut, len(b), part)
	}
}

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
	f := testref.Must(Open(path, "test", 1))(t)
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
