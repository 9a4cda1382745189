package testref

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// Ref is one folder of reference numbers. Its methods fail the test it was
// opened for when what they are asked for is not there. It is read-only and
// safe for concurrent use.
type Ref struct {
	Dir string // the folder

	t       testing.TB
	tensors map[string]tensor
	meta    map[string]string
}

// Open reads the reference of that name, for example "snelson" or
// "layers/mlp-relu", from testdata/reference of the repository, else from
// shared/reference beside it. A reference is a folder, or a file without a model, as
// "selection/snelson". Open skips the test where it is in neither.
func Open(t testing.TB, name string) *Ref {
	t.Helper()
	dirs := roots()
	for _, root := range dirs {
		path := filepath.Join(root, filepath.FromSlash(name))
		for _, file := range []string{filepath.Join(path, refFile), path + ".safetensors"} {
			if isFile(file) {
				return open(t, file)
			}
		}
	}
	t.Skipf("no reference %q in %s", name, strings.Join(dirs, " or "))
	return nil
}

func open(t testing.TB, file string) *Ref {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	r := Parse(t, file, b)
	r.Dir = filepath.Dir(file)
	return r
}

// Parse reads a reference from the bytes of a safetensors file, which name stands
// for in messages. It has no folder and no model.
func Parse(t testing.TB, name string, b []byte) *Ref {
	t.Helper()
	tensors, meta, err := parse(b)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return &Ref{Dir: name, t: t, tensors: tensors, meta: meta}
}

// Model returns the bytes of the folder's model.onnx.
func (r *Ref) Model(t testing.TB) []byte {
	t.Helper()
	return r.File(t, "model.onnx")
}

// File returns the bytes of a file of the folder.
func (r *Ref) File(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(r.Dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Has reports whether there is a tensor of that name.
func (r *Ref) Has(name string) bool {
	_, ok := r.tensors[name]
	return ok
}

// HasMeta reports whether there is metadata under key.
func (r *Ref) HasMeta(key string) bool {
	_, ok := r.meta[key]
	return ok
}

// Shape returns the tensor's dimensions.
func (r *Ref) Shape(name string) []int {
	r.t.Helper()
	return slices.Clone(r.tensor(name).Shape)
}

// Floats returns the tensor's elements in row-major order.
func (r *Ref) Floats(name string) []float64 {
	r.t.Helper()
	x := r.tensor(name)
	v := make([]float64, x.len())
	for i := range v {
		v[i] = x.float(i)
	}
	return v
}

// Ints returns the elements of an I64 or U8 tensor in row-major order.
func (r *Ref) Ints(name string) []int {
	r.t.Helper()
	x := r.tensor(name)
	if x.DType != "I64" && x.DType != "U8" {
		r.t.Fatalf("%s: tensor %q is %s, not integer", r.Dir, name, x.DType)
	}
	v := make([]int, x.len())
	for i := range v {
		v[i] = x.int(i)
	}
	return v
}

// Matrix returns the tensor with its first dimension as rows and the product
// of the others as columns; a vector is one column.
func (r *Ref) Matrix(name string) *mat.Dense {
	r.t.Helper()
	shape, rows := r.Shape(name), 1
	if len(shape) > 0 {
		rows = shape[0]
	}
	if rows == 0 {
		r.t.Fatalf("%s: tensor %q is empty", r.Dir, name)
	}
	return r.MatrixRC(name, rows, r.tensor(name).len()/rows)
}

// MatrixRC returns the tensor as a rows × cols matrix in row-major order.
func (r *Ref) MatrixRC(name string, rows, cols int) *mat.Dense {
	r.t.Helper()
	v := r.Floats(name)
	if rows <= 0 || cols <= 0 || rows*cols != len(v) {
		r.t.Fatalf("%s: tensor %q of shape %v is not %d × %d", r.Dir, name, r.Shape(name), rows, cols)
	}
	return mat.NewDense(rows, cols, v)
}

// Meta returns the metadata string under key.
func (r *Ref) Meta(key string) string {
	r.t.Helper()
	s, ok := r.meta[key]
	if !ok {
		r.t.Fatalf("%s: no metadata %q", r.Dir, key)
	}
	return s
}

// Scalar returns the metadata under key as a number.
func (r *Ref) Scalar(key string) float64 {
	r.t.Helper()
	v, err := strconv.ParseFloat(r.Meta(key), 64)
	if err != nil {
		r.t.Fatalf("%s: metadata %q: %v", r.Dir, key, err)
	}
	return v
}

func (r *Ref) tensor(name string) tensor {
	r.t.Helper()
	x, ok := r.tensors[name]
	if !ok {
		r.t.Fatalf("%s: no tensor %q", r.Dir, name)
	}
	return x
}
