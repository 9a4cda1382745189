package dataset

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A directory that is read while the program goes on gives what one gives that is read before, in
// any order of rows; what is wrong with a file is an error where its rows are asked for, and of
// Complete.
func TestArriving(t *testing.T) {
	digits := Digits(0, 3000, 40)
	write := func(damage func(name string, content []byte) []byte) string {
		dir := t.TempDir()
		for k, s := range []*Set{digits.Train, digits.Test} {
			var pix, labels []byte
			for i := range s.n {
				pix, labels = append(pix, s.Image(i)...), append(labels, byte(s.Labels[i]))
			}
			for j, content := range [][]byte{idxBytes(pix, uint32(s.n), 28, 28), idxBytes(labels, uint32(s.n))} {
				var z bytes.Buffer
				w := gzip.NewWriter(&z)
				_, err := w.Write(content)
				require.NoError(t, err)
				require.NoError(t, w.Close())
				name := idxStems[2*k+j]
				require.NoError(t, os.WriteFile(filepath.Join(dir, name+".gz"), damage(name, z.Bytes()), 0o600))
			}
		}
		return dir
	}
	dir := write(func(_ string, content []byte) []byte { return content })
	want, err := Open(t.Context(), dir, nil)
	require.NoError(t, err)
	got, err := Open(t.Context(), dir, &OpenOptions{Beside: true})
	require.NoError(t, err)
	require.Equal(t, want.Train.Labels, got.Train.Labels)
	for _, pos := range [][]int{{2, 0}, {2999}, {7, 1400, 1399}, nil} {
		x, err := got.Train.Read(t.Context(), pos)
		require.NoError(t, err)
		require.Equal(t, want.Train.Matrix(pos), x)
	}
	img, err := got.Test.ReadImage(t.Context(), 39)
	require.NoError(t, err)
	require.Equal(t, want.Test.Image(39), img)
	require.NoError(t, got.Complete(t.Context()))

	_, err = Open(t.Context(), dir, &OpenOptions{Beside: true, MaxBytes: 1 << 20})
	require.ErrorContains(t, err, "its images take 2352000 bytes of memory, of which 1048576 may be used")

	for name, c := range map[string]struct {
		damage func(content []byte) []byte
		want   string
	}{
		"cut":      {func(z []byte) []byte { return z[:len(z)/2] }, "the data end after"},
		"checksum": {func(z []byte) []byte { z[len(z)-6] ^= 1; return z }, "damaged"},
	} {
		dir := write(func(name string, content []byte) []byte {
			if name == idxStems[0] {
				return c.damage(content)
			}
			return content
		})
		_, eager := Open(t.Context(), dir, nil)
		require.ErrorContains(t, eager, c.want, name)
		d, err := Open(t.Context(), dir, &OpenOptions{Beside: true})
		require.NoError(t, err)
		first, err := d.Train.Read(t.Context(), []int{0, 1})
		require.NoError(t, err, name)
		require.Equal(t, want.Train.Matrix([]int{0, 1}), first)
		_, err = d.Train.Read(t.Context(), []int{2999})
		require.Equal(t, eager, err, name)
		require.Equal(t, eager, d.Complete(t.Context()), name)
	}
}
