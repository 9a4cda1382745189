package network_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize/network"
)

// exported is a case of the corpus of small exports: files of the same network in
// several types and opsets, and PyTorch's f and J.
type exported struct {
	name    string
	ref     *testref.Ref
	files   map[string][]byte
	exports []export
	params  []exportedParam
}

// An export is one file.
type export struct {
	File    string              `json:"file"`
	Batch   int                 `json:"batch"`   // declared batch size; 0 is open
	Params  map[string][][3]int `json:"params"`  // columns of J for the elements of each of its tensors, as runs of first, step and count
	Inexact string              `json:"inexact"` // what float32 rounds
}

// An exportedParam is a parameter in the order of PyTorch's J.
type exportedParam struct {
	name, block string
	offset, len int
}

// corpus reads the groups of testdata/operators.
func corpus(t *testing.T) []*exported {
	t.Helper()
	paths := testref.Must(filepath.Glob(filepath.Join("..", "..", "testdata", "operators", "*.tar.gz")))(t)
	require.NotEmpty(t, paths)
	cases := map[string]*exported{}
	for _, p := range paths {
		packed := testref.Must(os.ReadFile(p))(t)
		z := testref.Must(gzip.NewReader(bytes.NewReader(packed)))(t)
		for r := tar.NewReader(z); ; {
			head, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			data := testref.Must(io.ReadAll(r))(t)
			name, file := path.Split(head.Name)
			name = strings.TrimSuffix(name, "/")
			if cases[name] == nil {
				cases[name] = &exported{name: name, files: map[string][]byte{}}
			}
			cases[name].files[file] = data
		}
	}
	var all []*exported
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		cases[name].parse(t)
		all = append(all, cases[name])
	}
	return all
}

// parse reads what the reference says of the files.
func (e *exported) parse(t *testing.T) {
	e.ref = testref.Parse(t, e.name, e.files["reference.safetensors"])
	require.NoError(t, json.Unmarshal([]byte(e.ref.Meta("exports")), &e.exports), e.name)
	if e.refused() {
		return
	}
	var list [][3]any
	require.NoError(t, json.Unmarshal([]byte(e.ref.Meta("parameters")), &list), e.name)
	at := 0
	for _, p := range list {
		size := int(p[1].(float64))
		e.params = append(e.params, exportedParam{p[0].(string), p[2].(string), at, size})
		at += size
	}
}

// refused reports whether the network mixes examples.
func (e *exported) refused() bool { return e.ref.HasMeta("refused") }

// inputs returns all inputs of the examples, in one row each.
func (e *exported) inputs() *mat.Dense {
	x := e.ref.Matrix("x0")
	for i := 1; e.ref.Has("x" + string(rune('0'+i))); i++ {
		var wider mat.Dense
		wider.Augment(x, e.ref.Matrix("x"+string(rune('0'+i))))
		x = &wider
	}
	return x
}

// outputs returns the names of the outputs, or one empty name where there is only one.
func (e *exported) outputs(t *testing.T, b *export) []string {
	if e.refused() || e.ref.Has("f") {
		return []string{""}
	}
	m := testref.Must(onnx.Decode(e.files[b.File]))(t)
	var names []string
	for _, o := range m.Graph.Outputs {
		names = append(names, o.Name)
	}
	return names
}

// TestCorpus compares f and J of networks as PyTorch exports them with PyTorch's own
// in float64. 1e-12 and 1e-10 of the largest entry: both are float64 sums of a few
// hundred terms; 1e-6 where the exporter rounded a number that PyTorch has in float64.
func TestCorpus(t *testing.T) {
	listed := corpusLists(t)
	seen := map[string]bool{}
	for _, e := range corpus(t) {
		for i := range e.exports {
			b := &e.exports[i]
			name := e.name + "/" + strings.TrimSuffix(b.File, ".onnx")
			t.Run(name, func(t *testing.T) {
				is := map[string]bool{}
				for _, list := range []string{"unread", "misjudged"} {
					for _, key := range []string{list + " " + e.name, list + " " + name} {
						if listed[key] {
							is[list], seen[key] = true, true
						}
					}
				}
				outputs := e.outputs(t, b)
				net, err := network.ReadONNX(bytes.NewReader(e.files[b.File]), &network.ReadOptions{Output: outputs[0]})
				switch {
				case e.refused():
					require.Error(t, err)
					requireOneLine(t, err)
				case is["unread"]:
					require.Error(t, err, "it can be read now: strike it from unread.txt")
				default:
					require.NoError(t, err)
					if is["misjudged"] {
						require.False(t, b.learns(net), "its parameters are those that were learnt now: strike it from unread.txt")
					}
					for _, output := range outputs {
						e.check(t, b, output, is["misjudged"])
					}
				}
			})
		}
	}
	for key := range listed {
		require.True(t, seen[key], "%s is listed in unread.txt, and there is no such file", key)
	}
}

// corpusLists reads the lists of cases, and of single files, that are not read yet, or not
// right by themselves.
func corpusLists(t *testing.T) map[string]bool {
	t.Helper()
	data := testref.Must(os.ReadFile(filepath.Join("..", "..", "testdata", "operators", "unread.txt")))(t)
	listed := map[string]bool{}
	for line := range strings.Lines(string(data)) {
		key, _, ok := strings.Cut(line, ":")
		if ok && !strings.HasPrefix(line, "#") {
			listed[key] = true
		}
	}
	return listed
}

// learns reports whether the parameters of the network are those that were learnt.
func (b *export) learns(n *network.Network) bool {
	freeze, learn := b.corrections(n)
	return len(freeze) == 0 && len(learn) == 0
}

// corrections returns the names to freeze and to learn for the parameters to be those
// that were learnt.
func (b *export) corrections(n *network.Network) (freeze, learn []string) {
	has := map[string]bool{}
	for _, p := range n.Params() {
		has[p.Name] = true
		if b.Params[p.Name] == nil {
			freeze = append(freeze, p.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b.Params)) {
		if !has[name] {
			learn = append(learn, name)
		}
	}
	return freeze, learn
}

// check compares one output of one file with the reference. correct names the
// parameters to the reader where it would take others.
func (e *exported) check(t *testing.T, b *export, output string, correct bool) {
	t.Helper()
	o := &network.ReadOptions{Output: output}
	net := testref.Must(network.ReadONNX(bytes.NewReader(e.files[b.File]), o))(t)
	if correct {
		o.Freeze, o.Learn = b.corrections(net)
		net = testref.Must(network.ReadONNX(bytes.NewReader(e.files[b.File]), o))(t)
	}
	suffix := ""
	if output != "" {
		suffix = "/" + output
	}
	tolF, tolJ := 1e-12, 1e-10
	if b.Inexact != "" {
		tolF, tolJ = 1e-6, 1e-6
	}
	f, j := e.linearize(t, net, b)
	testref.RequireClose(t, f, e.ref.Floats("f"+suffix), tolF, "f")
	want := e.ref.Floats("jacobian" + suffix)
	cols := e.ref.Shape("jacobian" + suffix)[2]
	_, _, p := net.Dims()
	full := mat.NewDense(len(want)/cols, cols, nil) // columns in PyTorch's order
	for _, param := range net.Params() {
		at := param.Offset
		for _, run := range b.Params[param.Name] {
			for k := range run[2] {
				for r := range full.RawMatrix().Rows {
					to := run[0] + run[1]*k
					full.Set(r, to, full.At(r, to)+j[r*p+at])
				}
				at++
			}
		}
		require.Equal(t, param.Offset+param.Len(), at, param.Name)
	}
	used, scale := map[string]bool{}, largest(full)
	for _, q := range e.params {
		mine, theirs := full.Slice(0, len(want)/cols, q.offset, q.offset+q.len), mat.NewDense(len(want)/cols, cols, want).Slice(0, len(want)/cols, q.offset, q.offset+q.len)
		a, w := mat.DenseCopyOf(mine), mat.DenseCopyOf(theirs)
		if largest(w) < 1e-12*scale { // a bias that normalization removes
			require.LessOrEqual(t, largest(a), 1e-12*scale, "∂f/∂%s, which is zero", q.name)
			continue
		}
		used[q.name] = true
		testref.RequireClose(t, a.RawMatrix().Data, w.RawMatrix().Data, tolJ, "∂f/∂"+q.name)
	}
	e.checkParams(t, net, b, used)
}

func largest(m *mat.Dense) float64 { return max(mat.Max(m), -mat.Min(m)) }

// linearize returns f and J at the inputs, in batches of the declared size.
func (e *exported) linearize(t *testing.T, net *network.Network, b *export) (f, j []float64) {
	t.Helper()
	x := e.inputs()
	rows, d := x.Dims()
	step := b.Batch
	if step == 0 {
		step = rows
	}
	for lo := 0; lo < rows; lo += step {
		part := testref.Must(net.Linearize(t.Context(), x.Slice(lo, lo+step, 0, d).(*mat.Dense)))(t)
		var full mat.Dense
		part.JacobianTo(&full)
		f = append(f, part.F.RawMatrix().Data...)
		j = append(j, full.RawMatrix().Data...)
	}
	return f, j
}

// checkParams checks that the parameters are those that PyTorch learns and that are
// used, and that layers have the structured Block that their shape allows.
func (e *exported) checkParams(t *testing.T, net *network.Network, b *export, used map[string]bool) {
	t.Helper()
	block := map[string]string{}
	for _, p := range net.Describe().Params {
		block[p.Name] = p.Block
	}
	copied := func(first int) bool { // the exporter stored the tensor twice, and one is a parameter
		for _, p := range net.Params() {
			if runs := b.Params[p.Name]; runs != nil && runs[0][0] == first {
				return true
			}
		}
		return false
	}
	for name, runs := range b.Params {
		kind, ok := block[name]
		for _, q := range e.params {
			if runs[0][0] < q.offset || runs[0][0] >= q.offset+q.len {
				continue
			}
			require.True(t, ok || !used[q.name] || copied(runs[0][0]), "%s was learnt and is not a parameter", name)
			if ok && q.block != "" {
				require.Equal(t, q.block, kind, name)
			}
		}
		delete(block, name)
	}
	require.Empty(t, block, "a parameter that was not learnt")
}
