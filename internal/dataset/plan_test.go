package dataset

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/testref"
)

// What cannot fit is refused by the size and the first rows, before the rows are read: what is
// wrong with a late one is not seen. What fits is read, or left in the file.
func TestPlan(t *testing.T) {
	dir := t.TempDir()
	var text bytes.Buffer
	text.WriteString("a,b,y\n")
	const rows = 400_000
	for i := range rows {
		fmt.Fprintf(&text, "%d,%d.5,%d\n", i%97, i*7919%1009, i%2)
	}
	good, damaged := filepath.Join(dir, "good.csv"), filepath.Join(dir, "damaged.csv")
	require.NoError(t, os.WriteFile(good, text.Bytes(), 0o600))
	require.NoError(t, os.WriteFile(damaged, append(text.Bytes(), "x,1,2\n"...), 0o600))
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	require.NoError(t, testref.Err(w.Write(append(text.Bytes(), "x,1,2\n"...))))
	require.NoError(t, w.Close())
	packed := filepath.Join(dir, "damaged.csv.gz")
	require.NoError(t, os.WriteFile(packed, zipped.Bytes(), 0o600))

	for _, path := range []string{good, packed} {
		g := storage{}.guess(t.Context(), []string{path})
		require.Equal(t, 3, g.fields)
		require.Less(t, math.Abs(g.rows-rows), .05*rows, path)
	}
	for path, want := range map[string]string{
		damaged: "damaged.csv: what is kept of its about ",
		packed:  " bytes of memory, of which 8388608 may be used; decompress it",
	} {
		_, err := Open(t.Context(), path, &OpenOptions{ByRange: 1 << 30, MaxBytes: 8 << 20})
		require.ErrorContains(t, err, want)
		_, err = Open(t.Context(), path, &OpenOptions{ByRange: 1 << 30})
		require.ErrorContains(t, err, `"x" is not a number`)
	}
	for most, far := range map[int64]bool{0: false, 30 << 20: true, 1 << 30: false} {
		d := testref.Must(Open(t.Context(), good, &OpenOptions{ByRange: 1 << 30, MaxBytes: most}))(t)
		require.Equal(t, far, d.Train.ByRange(), most)
		all := testref.Must(d.Train.Select(nil))(t)
		require.Equal(t, rows, all.Len())
		require.Same(t, &all.Pos[0], &all.Rows[0], "numbers of rows are kept once")
		require.Same(t, &d.Train.Labels[0], &all.Labels[0])
		require.NoError(t, d.Close())
	}
}
