package testref

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"
)

// recorder stands in for a test: it notes a failure or a skip and ends the
// goroutine as testing does.
type recorder struct {
	testing.TB
	failed, skipped string
}

func (r *recorder) Helper()           {}
func (r *recorder) Fatal(args ...any) { r.failed = fmt.Sprint(args...); runtime.Goexit() }
func (r *recorder) Fatalf(f string, args ...any) {
	r.failed = fmt.Sprintf(f, args...)
	runtime.Goexit()
}
func (r *recorder) Skipf(f string, args ...any) {
	r.skipped = fmt.Sprintf(f, args...)
	runtime.Goexit()
}
func record(f func(t testing.TB)) (r *recorder) {
	r = new(recorder)
	done := make(chan struct{})
	go func() { defer close(done); f(r) }()
	<-done
	return r
}

// file builds a safetensors file from a JSON header and data.
func file(header string, data []byte) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), data...)
}

func write(t *testing.T, b []byte) string {
	path := filepath.Join(t.TempDir(), refFile)
	require.NoError(t, os.WriteFile(path, b, 0o644))
	return path
}

func TestEveryDtype(t *testing.T) {
	var data []byte
	for _, v := range []float64{1.5, -2, math.Pi, 0, 7, 1e-300} {
		data = binary.LittleEndian.AppendUint64(data, math.Float64bits(v))
	}
	data = binary.LittleEndian.AppendUint32(data, math.Float32bits(-0.1))
	data = binary.LittleEndian.AppendUint64(data, 1<<64-3)
	data = append(data, 0, 255)
	r := open(t, write(t, file(`{"__metadata__":{"delta":"0.63","likelihood":"gaussian"},
		"a":{"dtype":"F64","shape":[1,2,3],"data_offsets":[0,48]},
		"b":{"dtype":"F32","shape":[],"data_offsets":[48,52]},
		"c":{"dtype":"I64","shape":[1],"data_offsets":[52,60]},
		"d":{"dtype":"U8","shape":[2],"data_offsets":[60,62]}}`, data)))

	require.Equal(t, []float64{1.5, -2, math.Pi, 0, 7, 1e-300}, r.Floats("a"))
	require.Equal(t, []int{1, 2, 3}, r.Shape("a"))
	require.True(t, mat.Equal(mat.NewDense(1, 6, r.Floats("a")), r.Matrix("a")))
	require.True(t, mat.Equal(mat.NewDense(2, 3, r.Floats("a")), r.MatrixRC("a", 2, 3)))
	require.Equal(t, []float64{float64(float32(-0.1))}, r.Floats("b"))
	require.Equal(t, []int{-3}, r.Ints("c"))
	require.Equal(t, []float64{-3}, r.Floats("c"))
	require.Equal(t, []int{0, 255}, r.Ints("d"))
	rows, cols := r.Matrix("d").Dims()
	require.Equal(t, []int{2, 1}, []int{rows, cols})
	require.True(t, r.Has("a") && !r.Has("delta") && r.HasMeta("delta") && !r.HasMeta("a"))
	require.Equal(t, 0.63, r.Scalar("delta"))
	require.Equal(t, "gaussian", r.Meta("likelihood"))
}

func TestAskingForWhatIsNotThereFails(t *testing.T) {
	path := write(t, file(`{"__metadata__":{"likelihood":"gaussian"},
		"a":{"dtype":"F64","shape":[1],"data_offsets":[0,8]},
		"e":{"dtype":"F64","shape":[0,2],"data_offsets":[0,0]}}`, make([]byte, 8)))
	for what, ask := range map[string]func(r *Ref){
		`no tensor "b"`:           func(r *Ref) { r.Floats("b") },
		`"a" is F64`:              func(r *Ref) { r.Ints("a") },
		`"e" is empty`:            func(r *Ref) { r.Matrix("e") },
		`is not 2 × 3`:            func(r *Ref) { r.MatrixRC("a", 2, 3) },
		`no metadata "delta"`:     func(r *Ref) { r.Scalar("delta") },
		`metadata "likelihood": `: func(r *Ref) { r.Scalar("likelihood") },
		`model.onnx`:              func(r *Ref) { r.Model(r.t) },
	} {
		got := record(func(t testing.TB) { ask(open(t, path)) })
		require.Contains(t, got.failed, what)
	}
}

func TestDamagedFiles(t *testing.T) {
	for what, b := range map[string][]byte{
		"too short":        []byte("abc"),
		"header of":        binary.LittleEndian.AppendUint64(nil, math.MaxUint64),
		"header: ":         file(`{`, nil),
		"metadata: ":       file(`{"__metadata__":3}`, nil),
		"dtype":            file(`{"a":{"dtype":"F16","shape":[],"data_offsets":[0,2]}}`, make([]byte, 2)),
		"bytes [0, 16)":    file(`{"a":{"dtype":"F64","shape":[2],"data_offsets":[0,16]}}`, make([]byte, 8)),
		"bytes [-8, 0)":    file(`{"a":{"dtype":"F64","shape":[1],"data_offsets":[-8,0]}}`, make([]byte, 8)),
		"shape [3]":        file(`{"a":{"dtype":"F64","shape":[3],"data_offsets":[0,16]}}`, make([]byte, 16)),
		"in 15 bytes":      file(`{"a":{"dtype":"F64","shape":[1],"data_offsets":[0,15]}}`, make([]byte, 15)),
		"shape [-1 -1]":    file(`{"a":{"dtype":"F64","shape":[-1,-1],"data_offsets":[0,8]}}`, make([]byte, 8)),
		"shape [42949672":  file(`{"a":{"dtype":"F64","shape":[4294967296,4294967296],"data_offsets":[0,0]}}`, nil),
		"cannot unmarshal": file(`{"a":3}`, nil),
	} {
		_, _, err := parse(b)
		require.ErrorContains(t, err, what)
	}
}

func TestRequireClose(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		got, want []float64
		rel       float64
		fails     string // "" for a pass
	}{
		{nil, nil, 0, ""},
		{[]float64{1, 100}, []float64{1.9, 100}, 1e-2, ""}, // .9 of a largest entry of 100
		{[]float64{1, 100}, []float64{2.1, 100}, 1e-2, "entry 0 is 1, want 2.1"},
		{[]float64{1, -100}, []float64{1, 100}, 1.9, "entry 1"},
		{[]float64{0, 0}, []float64{0, 0}, 0, ""},
		{[]float64{0, 1e-300}, []float64{0, 0}, 1, "entry 1"}, // zero has no scale to be relative to
		{[]float64{1}, []float64{1, 2}, 1, "1 entries, want 2"},
		{[]float64{1, nan}, []float64{1, 2}, 1, "entry 1 is NaN"},
		{[]float64{5, 2}, []float64{nan, 2}, 1, "entry 0"},
		{[]float64{inf}, []float64{1}, 1, "entry 0 is +Inf"},
		{[]float64{1}, []float64{inf}, 1, "entry 0"},
		{[]float64{inf}, []float64{inf}, 1, "entry 0"},
	} {
		got := record(func(t testing.TB) { RequireClose(t, c.got, c.want, c.rel, "f") })
		if c.fails == "" {
			require.Empty(t, got.failed, "%v", c)
			continue
		}
		require.Contains(t, got.failed, c.fails)
		require.True(t, strings.HasPrefix(got.failed, "f: "), got.failed)
	}
}

func TestAbsentFoldersSkip(t *testing.T) {
	got := record(func(t testing.TB) { Open(t, "no/such-reference") })
	require.Contains(t, got.skipped, `no reference "no/such-reference"`)

	t.Chdir(t.TempDir())
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	got = record(func(t testing.TB) { References(t) })
	require.Contains(t, got.skipped, "no reference numbers")
	got = record(func(t testing.TB) { MNIST(t) })
	require.Contains(t, got.skipped, "MNIST's IDX files")
}

func TestMNISTInTheCache(t *testing.T) {
	t.Chdir(t.TempDir())
	home := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", home)
	t.Setenv("HOME", home)
	cache, err := os.UserCacheDir()
	require.NoError(t, err)
	dir := filepath.Join(cache, "funcgp", "mnist")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	for _, name := range []string{"train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte.gz"} {
		require.False(t, holdsMNIST(dir))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
	}
	require.Equal(t, dir, MNIST(t))
}

// Every folder opens, its model is there, and its tensors have the shapes of
// README.md: f is one row an example.
func TestReferences(t *testing.T) {
	names := References(t)
	require.Len(t, names, 28, "10 posteriors, 9 layers, 9 exports")
	for _, name := range names {
		r := Open(t, name)
		require.NotEmpty(t, r.Model(t), name)
		f := "f"
		if !r.Has(f) {
			f = "f_train"
		}
		shape := r.Shape(f)
		require.Len(t, shape, 2, name)
		rows, cols := r.Matrix(f).Dims()
		require.Equal(t, shape, []int{rows, cols}, name)
	}
	r := Open(t, "thesis-cnn")
	require.Equal(t, 4587.0, r.Scalar("P"))
	require.Len(t, r.Ints("train_index"), 3000)
}

// The files of selection open without a model, and have the rows of the folder of
// the same name.
func TestSelectionReferences(t *testing.T) {
	for _, name := range []string{"snelson", "two-moons", "categorical", "categorical-diagonal-prior", "poisson", "gaussian-two-outputs"} {
		r := Open(t, "selection/"+name)
		require.Equal(t, Open(t, name).Shape("f_train"), r.Shape("loo_mean"), name)
		require.Equal(t, Open(t, name).Meta("likelihood"), r.Meta("likelihood"), name)
	}
}

// The references hold no image of MNIST: no axis is as long as a picture or
// one of its sides, and nothing is stored as bytes.
func TestReferencesHoldNoPixels(t *testing.T) {
	for _, name := range []string{"thesis-cnn", "mnist10-mlp"} {
		r := Open(t, name)
		for tensor, x := range r.tensors {
			require.NotEqual(t, "U8", x.DType, tensor)
			for _, d := range x.Shape {
				require.NotContains(t, []int{28, 784}, d, "%s: %s %v", name, tensor, x.Shape)
			}
		}
	}
}
