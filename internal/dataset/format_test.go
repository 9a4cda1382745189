package dataset

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/testref"
)

// columnsFile is a format of columns in JSON.
type columnsFile struct {
	Names  []string
	Values []any // of a column: []float64 or []string
}

func init() {
	RegisterFormat(".columns", func(file io.ReaderAt, size int64) (TableFile, error) {
		var parsed struct {
			Names  []string
			Floats map[string][]float64
			Text   map[string][]string
		}
		if err := json.NewDecoder(io.NewSectionReader(file, 0, size)).Decode(&parsed); err != nil {
			return nil, errors.New("no columns")
		}
		f := &columnsFile{Names: parsed.Names}
		for _, name := range f.Names {
			if v, ok := parsed.Text[name]; ok {
				f.Values = append(f.Values, v)
			} else {
				f.Values = append(f.Values, parsed.Floats[name])
			}
		}
		return f, nil
	})
}

func (f *columnsFile) Columns() []string { return f.Names }
func (f *columnsFile) IsText(k int) bool { _, text := f.Values[k].([]string); return text }

func (f *columnsFile) Len() int {
	if v, ok := f.Values[0].([]string); ok {
		return len(v)
	}
	return len(f.Values[0].([]float64))
}

func (f *columnsFile) ReadFloats(ctx context.Context, dst []float64, k, lo int) error {
	for i := range dst {
		if dst[i] = f.Values[k].([]float64)[lo+i]; dst[i] == -1 {
			dst[i] = math.NaN()
		}
	}
	return ctx.Err()
}

func (f *columnsFile) ReadText(ctx context.Context, dst []string, k, lo int) error {
	copy(dst, f.Values[k].([]string)[lo:])
	return ctx.Err()
}

// Files of a registered format are tables: numbers or words as targets, and names of rows.
func TestFormat(t *testing.T) {
	text := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	files := fstest.MapFS{
		"x-0.columns": text(`{"Names": ["id", "a", "b", "y"], "Floats": {"a": [1, 2], "b": [3, 4], "id": [7, 8]}, "Text": {"y": ["no", "yes"]}}`),
		"x-1.columns": text(`{"Names": ["y", "b", "a", "id"], "Floats": {"a": [5], "b": [6], "id": [9]}, "Text": {"y": ["no"]}}`),
		"t-0.columns": text(`{"Names": ["id", "a", "y", "z"], "Floats": {"a": [1, 2], "y": [3, 4], "z": [5, 6]}, "Text": {"id": ["p", "q"]}}`),
		"e-0.columns": text(`{"Names": ["a", "y"], "Floats": {"a": [1], "y": [2]}}`),
	}
	for _, far := range []int64{0, 1} {
		d := testref.Must(Open(t.Context(), "x-*.columns", &OpenOptions{FS: files, ByRange: far, ID: "id"}))(t)
		require.Equal(t, []string{"a", "b"}, d.Columns)
		require.Equal(t, []string{"no", "yes"}, d.Names)
		require.Equal(t, []int{0, 1, 0}, d.Train.Labels)
		require.Equal(t, []string{"7", "8", "9"}, d.Train.IDs)
		x := testref.Must(d.Train.At([]int{2, 0, 1}).Read(t.Context()))(t)
		require.Equal(t, []float64{5, 6, 1, 3, 2, 4}, x.RawMatrix().Data)
	}
	d := testref.Must(Open(t.Context(), "t-0.columns", &OpenOptions{FS: files, ID: "id", Target: "z,y"}))(t)
	require.Equal(t, []float64{5, 3, 6, 4}, d.Train.Targets)
	require.Equal(t, []string{"p", "q"}, d.Train.IDs)

	for name, c := range map[string]struct{ file, want string }{
		"no columns":   {`no`, "e-1.columns: cannot be read: no columns"},
		"other column": {`{"Names": ["a", "b", "y"], "Floats": {"a": [1], "b": [1], "y": [2]}}`, `e-1.columns: column "b" is not in e-*.columns`},
		"no target":    {`{"Names": ["a"], "Floats": {"a": [1]}}`, "e-1.columns: the target or the ID column of e-0.columns is missing"},
		"words":        {`{"Names": ["a", "y"], "Floats": {"a": [1]}, "Text": {"y": ["no"]}}`, "e-1.columns: its targets are not of the kind of those of e-0.columns"},
		"text":         {`{"Names": ["a", "y"], "Floats": {"y": [1]}, "Text": {"a": ["no"]}}`, `e-1.columns: column "a" is text; code words`},
		"no rows":      {`{"Names": ["a", "y"], "Floats": {"a": [], "y": []}}`, "e-1.columns: there are no rows"},
		"no number":    {`{"Names": ["a", "y"], "Floats": {"a": [1], "y": [-1]}}`, "e-1.columns: row 0, column 2 (y): NaN is not finite"},
	} {
		files["e-1.columns"] = text(c.file)
		_, err := Open(t.Context(), "e-*.columns", &OpenOptions{FS: files, ByRange: 1})
		require.ErrorContains(t, err, c.want, name)
	}
	files["e-1.columns"] = text(`{"Names": ["a", "y"], "Floats": {"a": [-1], "y": [1]}}`)
	d = testref.Must(Open(t.Context(), "e-*.columns", &OpenOptions{FS: files, ByRange: 1}))(t)
	_, err := d.Train.At([]int{0, 1}).Read(t.Context())
	require.EqualError(t, err, "e-1.columns: row 0, column 1 (a): NaN is not finite; fill it in or leave the row out")
	_, err = Open(t.Context(), "e-*.columns", &OpenOptions{FS: files, MaxBytes: 20})
	require.ErrorContains(t, err, "the targets up to here take more than the 20 bytes")
	for _, ending := range []string{".csv", ".columns", ".NPY"} {
		require.Panics(t, func() {
			RegisterFormat(ending, func(io.ReaderAt, int64) (TableFile, error) { return nil, nil })
		})
	}
	_, err = Open(t.Context(), "*.parquet", &OpenOptions{FS: fstest.MapFS{"a.parquet": text("PAR1")}})
	require.ErrorContains(t, err, "a.parquet: is a Parquet file, which is not read; convert it")
}
