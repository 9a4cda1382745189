package dataset

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/testref"
)

// TestStoredRows puts rows of images and of a table in place of the training
// part, and finds the same examples there.
func TestStoredRows(t *testing.T) {
	csv := write(t, t.TempDir(), "t.csv", []byte("a,b,y\n1,2,0\n3,4,1\n5,6,0\n7,8,1\n"))
	for _, name := range []string{"digits:40,20", csv} {
		d := testref.Must(Open(t.Context(), name, nil))(t)
		rows := []int{3, 0, 2}
		sub := testref.Must(d.Train.Pick(nil, rows, ""))(t)
		other := testref.Must(d.WithTrain(kept(t, sub), "file"))(t)
		require.Equal(t, 3, other.Train.Len())
		again := testref.Must(other.Train.Pick(nil, rows, ""))(t)
		require.Equal(t, sub.Matrix(), again.Matrix(), "inputs")
		require.Equal(t, sub.Labels, again.Labels)
		require.Equal(t, sub.Targets, again.Targets)
		require.Error(t, testref.Err(other.Train.Pick(nil, []int{1}, "")), "row 1 is not inside")
	}
}

// TestStoredRowsThatDoNotFit checks that rows that do not fit the data are refused.
func TestStoredRowsThatDoNotFit(t *testing.T) {
	d := testref.Must(Open(t.Context(), "digits:40,20", nil))(t)
	sub := testref.Must(d.Train.Select(nil, 3))(t)
	for name, change := range map[string]func(r *Rows){
		"no rows":          func(r *Rows) { r.Index = nil },
		"too few pixels":   func(r *Rows) { r.px = r.px[1:] },
		"too few targets":  func(r *Rows) { r.Targets = r.Targets[1:] },
		"no labels":        func(r *Rows) { r.Labels = nil },
		"columns":          func(r *Rows) { r.Columns = []string{"a"} },
		"the last row":     func(r *Rows) { r.Index[2] = math.MaxInt },
		"features":         func(r *Rows) { r.px, r.x = nil, make([]float64, 3*784) },
		"another shape":    func(r *Rows) { r.Shape = []int{784} },
		"impossible shape": func(r *Rows) { r.Shape = []int{-1, 28, 28} },
		"huge shape":       func(r *Rows) { r.Shape = []int{1 << 40, 1 << 40} },
		"out of order":     func(r *Rows) { r.Index = []int{0, 2, 1} },
		"negative row":     func(r *Rows) { r.Index = []int{-1, 2, 3} },
		"a label of half":  func(r *Rows) { r.Targets = []float64{0, 1, 0.5} },
	} {
		r := kept(t, sub)
		r.Index, r.Targets = slices.Clone(r.Index), slices.Clone(r.Targets)
		change(r)
		require.ErrorContains(t, testref.Err(d.WithTrain(r, "file.gp")), "file.gp", name)
	}
}

// TestStoredRowsOfOtherColumns checks that rows with other columns are refused, as
// the network would take one feature for another.
func TestStoredRowsOfOtherColumns(t *testing.T) {
	dir := t.TempDir()
	d := testref.Must(Open(t.Context(), write(t, dir, "ab.csv", []byte("a,b,y\n1,2,0\n3,4,1\n")), nil))(t)
	sub := testref.Must(d.Train.Select(nil, 0))(t)
	other := testref.Must(Open(t.Context(), write(t, dir, "ba.csv", []byte("b,a,y\n2,1,0\n4,3,1\n")), nil))(t)
	_, err := other.WithTrain(kept(t, sub), "file.gp")
	require.ErrorContains(t, err, `have columns "a", "b", those of`)
}

func kept(t testing.TB, s *Rows) *Rows {
	t.Helper()
	out := testref.Must(s.Kept(t.Context(), nil))(t)
	out.File, out.files, out.labelFile = "", nil, ""
	return out
}

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
		all := testref.Must(d.Train.Select(nil, 0))(t)
		require.Equal(t, rows, all.Len())
		require.Nil(t, all.places, "numbers of rows are kept once")
		require.Same(t, &d.Train.Labels[0], &all.Labels[0])
		require.NoError(t, d.Close())
	}
}
