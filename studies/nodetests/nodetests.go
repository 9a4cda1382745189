// Package nodetests reads the models of ONNX's own test suite (https://github.com/onnx/onnx, folder
// onnx/backend/test/data/node; Debian has them as libonnx-testdata) and compares outputs and Jacobians.
//
//	go run ./gpstudies nodetests -data DIR -record records/nodetests.md
//
// A test of the suite is a model, its inputs and its outputs. Here the first floating-point input is the input
// of the network, one example for each of its first dimension, after a multiplication by a parameter of ones.
// Every other floating-point input is a parameter, and every integer input a constant. Outputs are compared with
// the outputs of the suite, and the Jacobian at some of the parameters with central differences.
package nodetests

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"gonum.org/v1/gonum/mat"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/funcgp/funcgp/internal/atomicfile"
	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/linearize/network/head"
)

// A verdict says what came of one test. Value and slope are the largest differences of f and of J, relative to
// the largest entry of each or to 1.
type verdict struct {
	name, refused string
	value, slope  float64
	// Kinks is the number of entries of J at which the function has another slope on each side, so that
	// differences say nothing.
	kinks int
}

const (
	valueTolerance = 1e-5 // the suite's outputs are float32
	slopeTolerance = 1e-6
	mostParameters = 40 // of one test whose slopes are compared, evenly over θ
)

// Run compares every test of -data and writes the counts, with the reason of every refusal, to -record.
func Run(ctx context.Context, out io.Writer, args []string) error {
	f := flag.NewFlagSet("nodetests", flag.ContinueOnError)
	f.SetOutput(out)
	data := f.String("data", "/usr/share/libonnx-testdata/data/node", "folder of the suite's tests of nodes")
	record := f.String("record", "", "write the figures in Markdown here")
	if err := f.Parse(args); err != nil {
		return err
	}
	models, err := filepath.Glob(filepath.Join(*data, "*", "model.onnx"))
	if err == nil && len(models) == 0 {
		err = fmt.Errorf("%s: no */model.onnx; give the folder onnx/backend/test/data/node by -data", *data)
	}
	if err != nil {
		return err
	}
	var all []verdict
	for _, path := range models {
		v, err := compare(ctx, filepath.Dir(path))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			v.refused = place.ReplaceAllString(err.Error(), "")
		}
		all = append(all, v)
	}
	text := table(all)
	if _, err := io.WriteString(out, text); err != nil || *record == "" {
		return err
	}
	return atomicfile.Write(*record, func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	})
}

// place is where a message says that the fault is, which differs between tests that are refused for one reason.
var place = regexp.MustCompile(`^network: (node \d+ "" )?|, opset \d+|; .*$`)

// known says why the test's numbers are others than the suite's.
var known = map[string]string{
	"cast_DOUBLE_to_FLOAT16": "nothing is rounded to half precision", "cast_FLOAT_to_FLOAT16": "nothing is rounded to half precision",
	"castlike_DOUBLE_to_FLOAT16_expanded": "nothing is rounded to half precision", "castlike_FLOAT_to_FLOAT16_expanded": "nothing is rounded to half precision",
	"resize_downsample_scales_cubic_align_corners":  "as onnxruntime, which differs from the suite too",
	"resize_downsample_scales_linear_align_corners": "as onnxruntime, which differs from the suite too",
}

// errNotOurs is the reason why a test asks nothing of a network of numbers.
var errNotOurs = errors.New("no floating-point input with a first dimension, or no floating-point output")

// compare runs the test in a folder.
func compare(ctx context.Context, dir string) (verdict, error) {
	v := verdict{name: filepath.Base(dir)}
	b, err := os.ReadFile(filepath.Join(dir, "model.onnx"))
	if err != nil {
		return v, err
	}
	m, err := onnx.Decode(b)
	if err != nil {
		return v, err
	}
	x, err := makeNetwork(m, dir)
	if err != nil {
		return v, err
	}
	want, err := readTensor(filepath.Join(dir, "test_data_set_0", "output_0.pb"))
	if err != nil {
		return v, err
	}
	if !want.Type.IsFloat() || len(want.Floats) == 0 {
		return v, errNotOurs
	}
	b, err = m.Encode()
	if err != nil {
		return v, err
	}
	n, err := network.ReadONNX(bytes.NewReader(b), &network.ReadOptions{Output: m.Graph.Outputs[0].Name, Head: head.Keep})
	if err != nil {
		return v, err
	}
	rows := int(x.Dims[0])
	batch, err := n.Linearize(ctx, mat.NewDense(rows, len(x.Floats)/rows, x.Floats))
	if err != nil {
		return v, err
	}
	if have := batch.F.RawMatrix().Data; len(have) == len(want.Floats) {
		v.value = difference(have, want.Floats)
	} else {
		v.value = math.Inf(1)
	}
	return v, v.compareSlopes(ctx, n, batch)
}

// makeNetwork replaces the inputs of the model's graph by parameters and constants with the numbers of the test, but for
// the first floating-point input, which it returns.
func makeNetwork(m *onnx.Model, dir string) (x *onnx.Tensor, err error) {
	var input *onnx.ValueInfo
	for i, in := range m.Graph.Inputs {
		t, err := readTensor(filepath.Join(dir, "test_data_set_0", fmt.Sprintf("input_%d.pb", i)))
		if err != nil {
			return nil, err
		}
		t.Name = in.Name
		if x == nil && t.Type.IsFloat() && len(t.Dims) > 0 && len(t.Floats) > 0 {
			x, input = t, in
			continue
		}
		m.Graph.Initializers = append(m.Graph.Initializers, t)
	}
	if x == nil {
		return nil, errNotOurs
	}
	m.Graph.Inputs = []*onnx.ValueInfo{input}
	input.HasShape, input.Dims = true, []onnx.Dim{{Param: "batch"}}
	ones := &onnx.Tensor{Name: "scale of the input", Dims: slices.Clone(x.Dims), Type: x.Type}
	ones.Dims[0] = 1
	for _, d := range x.Dims[1:] {
		input.Dims = append(input.Dims, onnx.Dim{Value: d, HasValue: true})
	}
	for range len(x.Floats) / int(x.Dims[0]) {
		ones.Floats = append(ones.Floats, 1)
	}
	m.Graph.Initializers = append(m.Graph.Initializers, ones)
	const scaled = "scaled input"
	first := []*onnx.Node{{OpType: "Mul", Inputs: []string{x.Name, ones.Name}, Outputs: []string{scaled}}}
	if len(x.Dims) == 1 {
		// The file's input has a second dimension of one, which the operator does not see.
		input.Dims = append(input.Dims, onnx.Dim{Value: 1, HasValue: true})
		ones.Dims = []int64{1, 1}
		shape := &onnx.Tensor{Name: "one dimension", Dims: []int64{1}, Type: onnx.Int64, Ints: []int64{-1}}
		m.Graph.Initializers = append(m.Graph.Initializers, shape)
		first[0].Outputs[0] = "column"
		first = append(first, &onnx.Node{OpType: "Reshape", Inputs: []string{"column", shape.Name}, Outputs: []string{scaled}})
	}
	for _, node := range m.Graph.Nodes {
		for i, name := range node.Inputs {
			if name == x.Name {
				node.Inputs[i] = scaled
			}
		}
	}
	m.Graph.Nodes = slices.Insert(m.Graph.Nodes, 0, first...)
	return x, nil
}

// readTensor reads a file that holds one TensorProto, as the only initializer of a model: field 5 of the graph, which
// is field 7.
func readTensor(path string) (*onnx.Tensor, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	field := func(n protowire.Number, b []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, n, protowire.BytesType), b)
	}
	m, err := onnx.Decode(field(7, field(5, b)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m.Graph.Initializers[0], nil
}

// difference returns the largest |a − b|, relative to the largest |b| or to 1. Equal infinities and NaN beside NaN
// do not differ.
func difference(a, b []float64) float64 {
	most, largest := 0.0, 1.0
	for i := range b {
		if a[i] == b[i] || math.IsNaN(a[i]) && math.IsNaN(b[i]) {
			continue
		}
		if d := math.Abs(a[i] - b[i]); d > most || math.IsNaN(d) {
			most = d
		}
		if !math.IsInf(b[i], 0) {
			largest = max(largest, math.Abs(b[i]))
		}
	}
	return most / largest
}

// compareSlopes compares some columns of J with differences of the network's outputs.
func (v *verdict) compareSlopes(ctx context.Context, n *network.Network, batch *linearize.Batch) error {
	theta := n.Theta()
	rows, c := batch.F.Dims()
	j := mat.NewDense(rows*c, len(theta), nil)
	batch.JacobianTo(j)
	at := func(p int, step float64) ([]float64, error) {
		moved := slices.Clone(theta)
		moved[p] += step
		other, err := n.WithTheta(moved)
		if err != nil {
			return nil, err
		}
		f, err := other.Forward(ctx, batch.X)
		if err != nil {
			return nil, err
		}
		return f.RawMatrix().Data, nil
	}
	here := batch.F.RawMatrix().Data
	for p := 0; p < len(theta); p += 1 + len(theta)/mostParameters {
		h := 1e-5 * max(1, math.Abs(theta[p]))
		up, err := at(p, h)
		if err != nil {
			return err
		}
		down, err := at(p, -h)
		if err != nil {
			return err
		}
		for i := range here {
			right, left := (up[i]-here[i])/h, (here[i]-down[i])/h
			size := max(1, math.Abs(right), math.Abs(here[i]))
			if !(math.Abs(right-left) < 1e-3*size) {
				v.kinks++
				continue
			}
			v.slope = max(v.slope, math.Abs(j.At(i, p)-(right+left)/2)/size)
		}
	}
	return nil
}

// table writes counts, the tests that are wrong, and the refusals by reason.
func table(all []verdict) string {
	var text strings.Builder
	var right, read, kinks, others int
	var wrong []verdict
	reasons := map[string][]string{}
	for _, v := range all {
		if v.refused == errNotOurs.Error() {
			others++
			continue
		}
		if v.refused != "" {
			reasons[v.refused] = append(reasons[v.refused], strings.TrimPrefix(v.name, "test_"))
			continue
		}
		read++
		kinks += v.kinks
		if v.value <= valueTolerance && v.slope <= slopeTolerance {
			right++
		} else {
			wrong = append(wrong, v)
		}
	}
	fmt.Fprintf(&text, "# ONNX's own tests of nodes\n\n%d tests: %d read, %d of them right (f within %.0e of the suite's float32, J within %.0e of central differences; %d kinks "+
		"left out), %d refused, and %d without numbers to compare.\n", len(all), read, right, valueTolerance, slopeTolerance, kinks, len(all)-read-others, others)
	text.WriteString("\n| differs | f | J | why |\n|---|---|---|---|\n")
	for _, v := range wrong {
		name := strings.TrimPrefix(v.name, "test_")
		fmt.Fprintf(&text, "| %s | %.2g | %.2g | %s |\n", name, v.value, v.slope, known[name])
	}
	text.WriteString("\n| refused because | tests |\n|---|---|\n")
	var order []string
	for reason := range reasons {
		order = append(order, reason)
	}
	slices.SortFunc(order, func(a, b string) int {
		if d := len(reasons[b]) - len(reasons[a]); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	for _, reason := range order {
		fmt.Fprintf(&text, "| %s | %s |\n", strings.ReplaceAll(reason, "|", "\\|"), strings.Join(reasons[reason], ", "))
	}
	return text.String()
}
