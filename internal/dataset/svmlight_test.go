package dataset

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/testref"
)

// Files in SVMlight's format, gzipped or not and read at once or by range, give the numbers of
// the same table in CSV. Test rows may lack the last features.
func TestSVMLight(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 9))
	var sparse, dense, short bytes.Buffer
	dense.WriteString("x1,x2,x3,x4,x5,x6,x7,target\n")
	for range 40 {
		y := []string{"+1", "-1"}[rng.IntN(2)]
		sparse.WriteString(y)
		for k := 1; k <= 7; k++ {
			v := 0.0
			if rng.IntN(3) == 0 || k == 7 {
				v = rng.NormFloat64()
				fmt.Fprintf(&sparse, " %d:%v", k, v)
			}
			fmt.Fprintf(&dense, "%v,", v)
		}
		fmt.Fprintf(&dense, "%s\n", y)
		sparse.WriteString(" # a row\n\n")
	}
	short.WriteString("-1 2:1.5 # no more features\n1\n")
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	require.NoError(t, testref.Err(z.Write(sparse.Bytes())))
	require.NoError(t, z.Close())
	files := fstest.MapFS{"a.svm": {Data: sparse.Bytes()}, "a.libsvm.gz": {Data: zipped.Bytes()}, "a.csv": {Data: dense.Bytes()}, "t.svmlight": {Data: short.Bytes()}, "z.svm": {Data: []byte("0 0:1 2:3\n1\n")}}
	want := testref.Must(Open(t.Context(), "a.csv", &OpenOptions{FS: files}))(t)
	for _, name := range []string{"a.svm", "a.libsvm.gz"} {
		for _, far := range []int64{0, 1} {
			d := testref.Must(Open(t.Context(), name, &OpenOptions{FS: files, ByRange: far, TestFile: "t.svmlight"}))(t)
			require.Equal(t, want.Columns, d.Columns)
			require.Equal(t, []int{-1, 1}, d.Classes())
			require.Equal(t, want.Train.Labels, d.Train.Labels)
			pos := rng.Perm(40)
			got := testref.Must(d.Train.Read(t.Context(), pos))(t)
			require.Equal(t, want.Train.Matrix(pos), got)
			got = testref.Must(d.Test.Read(t.Context(), nil))(t)
			require.Equal(t, []float64{0, 1.5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, got.RawMatrix().Data)
		}
	}
	d := testref.Must(Open(t.Context(), "z.svm", &OpenOptions{FS: files, Target: "x2"}))(t)
	require.Equal(t, []string{"x0", "x1", "target"}, d.Columns)
	require.Equal(t, []float64{1, 0, 0, 0, 0, 1}, d.Train.Matrix(nil).RawMatrix().Data)
	require.Equal(t, []float64{3, 0}, d.Train.Targets)
	_, err := Open(t.Context(), "a.svm", &OpenOptions{FS: files, MaxBytes: 50})
	require.ErrorContains(t, err, "a.svm:3: the rows up to here take more than the 50 bytes")
}

func TestSVMLightErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "a.svm: one column only",
		"1 1:2\nyes 1:2":         `a.svm:2: the target "yes" is no number`,
		"1,2 1:2":                `the target "1,2" is no number`,
		"1 a:2":                  `"a:2" is no index and finite value`,
		"1 -1:2":                 `"-1:2" is no index`,
		"1 1:inf":                `"1:inf" is no index`,
		"1 1":                    `"1" is no index`,
		"1 qid:3 1:2":            `"qid:3" is the group of a ranking`,
		"1 2:1 1:1":              "index 1 stands after index 2; write the indices of a line in ascending order",
		"1 1:1 1:1":              "index 1 stands after index 1",
		"1 99999999:1":           "index 99999999 is more than the 1048576 features",
		"1\n":                    "one column only",
		strings.Repeat("1", 400): "is no number",
	} {
		_, err := Open(t.Context(), "a.svm", &OpenOptions{FS: fstest.MapFS{"a.svm": {Data: []byte(text)}}})
		require.ErrorContains(t, err, want, text)
	}
	_, err := readSVMLight(io.MultiReader(strings.NewReader("1 1:1\n"), errorReader{}), "a.svm", 0)
	require.ErrorContains(t, err, "a.svm: cannot be read")
	_, err = readSVMLight(io.LimitReader(zeros{}, maxRecord+1), "a.svm", 0)
	require.ErrorContains(t, err, "a.svm:1: a line of more than")
}

// zeros are '0' without an end, and an errorReader fails.
type (
	zeros       struct{}
	errorReader struct{}
)

func (zeros) Read(p []byte) (int, error) {
	copy(p, bytes.Repeat([]byte{'0'}, len(p)))
	return len(p), nil
}
func (errorReader) Read([]byte) (int, error) { return 0, io.ErrNoProgress }

// FuzzSVMLight writes what was read and reads it again.
func FuzzSVMLight(f *testing.F) {
	f.Add("1 1:2 5:-3e4 # text\n\n-1\n")
	f.Add("0 0:1\n1 qid:2 1:1\n")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := readSVMLight(strings.NewReader(text), "a.svm", 1<<20)
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		var b strings.Builder
		from := 0
		for i, end := range got.ends {
			fmt.Fprint(&b, got.targets[i])
			for k := from; k < end; k++ {
				fmt.Fprintf(&b, " %d:%v", got.index[k], got.value[k])
			}
			from = end
			b.WriteByte('\n')
		}
		again := testref.Must(readSVMLight(strings.NewReader(b.String()), "a.svm", 1<<20))(t)
		require.Equal(t, got, again)
		if n := got.Len(); n > 0 && got.hi < 100 {
			v := make([]float64, n)
			for c := range got.Columns() {
				require.NoError(t, got.ReadFloats(t.Context(), v, c, 0))
				one := slices.Clone(v[n-1:])
				require.NoError(t, got.ReadFloats(t.Context(), one, c, n-1))
				require.Equal(t, v[n-1], one[0])
			}
		}
	})
}
