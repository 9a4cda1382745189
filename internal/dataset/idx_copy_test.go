package dataset

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The second use of a compressed file reads the copy that the first left, and neither a
// changed file nor a damaged copy goes unnoticed.
func TestReadCopied(t *testing.T) {
	const name = "train-images-idx3-ubyte.gz"
	dir := t.TempDir()
	path := filepath.Join(dir, name)
	read := func(want []byte, rows int) {
		t.Helper()
		for range 2 {
			x, err := readCopied(t.Context(), path, 3)
			require.NoError(t, err)
			require.Equal(t, idx{dims: []int{rows, 2, 2}, data: want}, *x)
		}
	}
	write(t, dir, name, zipped(t, idxBytes(count(12), 3, 2, 2)))
	of, err := sumOf(t.Context(), path)
	require.NoError(t, err)
	require.Nil(t, openCopy(path+copySuffix, of, 3))
	read(count(12), 3)
	require.NotNil(t, openCopy(path+copySuffix, of, 3))
	require.Nil(t, openCopy(path+copySuffix, of, 1), "of other dimensions")

	write(t, dir, name, zipped(t, idxBytes(count(8), 2, 2, 2)))
	read(count(8), 2)

	whole, err := os.ReadFile(path + copySuffix)
	require.NoError(t, err)
	of, err = sumOf(t.Context(), path)
	require.NoError(t, err)
	for i := range whole {
		damaged := append([]byte(nil), whole...)
		damaged[i] ^= 4
		write(t, dir, name+copySuffix, damaged)
		if x := openCopy(path+copySuffix, of, 3); x != nil {
			require.Equal(t, count(8), x.data, "byte %d", i)
		}
	}
	read(count(8), 2)

	// A damaged file is not copied, and one that is not compressed needs no copy.
	write(t, dir, name, []byte{0x1f, 0x8b})
	_, err = readCopied(t.Context(), path, 3)
	require.ErrorContains(t, err, "not a readable gzip stream")
	plain := filepath.Join(dir, "t10k-images-idx3-ubyte")
	write(t, dir, filepath.Base(plain), idxBytes(count(8), 2, 2, 2))
	_, err = readCopied(t.Context(), plain, 3)
	require.NoError(t, err)
	require.NoFileExists(t, plain+copySuffix)
	_, err = readCopied(t.Context(), filepath.Join(dir, "none.gz"), 3)
	require.ErrorIs(t, err, os.ErrNotExist)

	// A folder in the place of the copy keeps it from being written.
	other := filepath.Join(dir, "t10k-images-idx3-ubyte.gz")
	write(t, dir, filepath.Base(other), zipped(t, idxBytes(count(8), 2, 2, 2)))
	require.NoError(t, os.Mkdir(other+copySuffix, 0o755))
	path = other
	read(count(8), 2)
}
