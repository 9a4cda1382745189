package network_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize/network"
)

// openDim is a dimension without a size, and of a name.
func openDim(name string) onnx.Dim { return onnx.Dim{Param: name} }

func fixedDim(size int64) onnx.Dim { return onnx.Dim{Value: size, HasValue: true} }

// pictures is a graph whose input x has these dimensions after that of the examples, and 1 channel.
func pictures(height, width onnx.Dim) *onnx.Model {
	g := newGraph(17)
	x := g.model.Graph.Inputs[0]
	x.Dims = append(x.Dims, fixedDim(1), height, width)
	h := g.op("Relu", in(g.op("Conv", in("x", g.param(4, 1, 3, 3)))))
	h = g.op("Flatten", in(g.op("GlobalAveragePool", in(h))))
	return g.output(g.op("MatMul", in(h, g.param(4, 2))))
}

// TestBindSizes compares open dimensions whose sizes are given with the file that fixes them.
func TestBindSizes(t *testing.T) {
	want := mustLoad(t, pictures(fixedDim(6), fixedDim(5)))
	for _, bound := range []map[string]string{{"height": "6", "width": "5"}, {"x": "n,1,6,5"}, {"x": "n, 1,6,width", "width": "5"}} {
		if bound["width"] != "" && bound["x"] != "" {
			_, err := readModel(pictures(openDim("height"), openDim("width")), &network.ReadOptions{Bind: bound})
			require.ErrorContains(t, err, "2 letters")
			continue
		}
		got := testref.Must(readModel(pictures(openDim("height"), openDim("width")), &network.ReadOptions{Bind: bound}))(t)
		require.Equal(t, want.Fingerprint(), got.Fingerprint())
		require.Equal(t, network.Shape{1, 6, 5}, got.InputShape())
		again := roundTrip(t, got)
		require.Equal(t, want.Fingerprint(), again.Fingerprint())
		require.Equal(t, got.Metadata(), again.Metadata())
	}
	got := testref.Must(readModel(pictures(onnx.Dim{}, onnx.Dim{Value: -1, HasValue: true}), &network.ReadOptions{Bind: map[string]string{"x": "n,1,6,5"}}))(t)
	require.Equal(t, want.Fingerprint(), got.Fingerprint())
	other := testref.Must(readModel(pictures(onnx.Dim{}, onnx.Dim{}), &network.ReadOptions{Bind: map[string]string{"x": "n,1,6,6"}}))(t)
	require.NotEqual(t, want.Fingerprint(), other.Fingerprint())
}

// withOptions is a graph of x N×4 with the scalars rate and training, the vector bias of 3 numbers, and state 2×N×3,
// which a branch and the graph itself read.
func withOptions() *graph {
	g := newGraph(17, 4)
	add := func(name string, typ onnx.DataType, dims ...onnx.Dim) {
		v := &onnx.ValueInfo{Name: name, Type: typ, HasShape: true, Dims: dims}
		g.model.Graph.Inputs = append(g.model.Graph.Inputs, v)
	}
	add("rate", onnx.Int64)
	add("training", onnx.Bool)
	add("bias", onnx.Double, fixedDim(3))
	add("state", onnx.Double, fixedDim(2), openDim("n"), fixedDim(3))
	is := g.cast(g.op("Equal", in("rate", g.initializer(&onnx.Tensor{Name: "k", Type: onnx.Int64, Ints: []int64{16000}}, nil))), onnx.Double)
	h := g.op("Add", in(g.op("MatMul", in(g.op("Mul", in("x", is)), g.param(4, 3))), "bias"))
	h = g.op("Where", in("training", h, g.op("Tanh", in(h))))
	h = g.op("Add", in(h, g.op("ReduceSum", in("state", g.ints(0)), intA("keepdims", 0))))
	g.output(g.op("MatMul", in(g.op("Tanh", in(h)), g.param(3, 2))))
	return g
}

// TestBindValues compares inputs whose values are given with f computed by hand, and J with differences.
func TestBindValues(t *testing.T) {
	g := withOptions()
	w, v := g.model.Graph.Initializers[1].Floats, g.model.Graph.Initializers[3].Floats
	require.Len(t, w, 12)
	require.Len(t, v, 6)
	x := gaussianMatrix(rand.New(rand.NewPCG(1, 2)), 3, 4)
	for _, c := range []struct {
		bound           map[string]string
		rate            float64
		linear          bool
		bias, state     float64
		leaves, columns int
	}{
		{map[string]string{"rate": "16000", "training": "false", "bias": "0.5", "state": "0"}, 1, false, .5, 0, 1, 4},
		{map[string]string{"rate": "8000", "training": "true", "bias": "-1", "state": "0.25"}, 0, true, -1, .25, 1, 4},
		{map[string]string{"rate": "16000", "training": "0", "bias": "2"}, 1, false, 2, 0, 2, 10},
	} {
		net := testref.Must(readModel(g.model, &network.ReadOptions{Bind: c.bound}))(t)
		require.Len(t, net.Inputs(), c.leaves)
		d, _, p := net.Dims()
		require.Equal(t, c.columns, d)
		require.Equal(t, 18, p, "what is given is no parameter")
		rows := inputsOf(net, rand.New(rand.NewPCG(3, 4)), 3)
		for i := range 3 {
			copy(rows.RawRowView(i), x.RawRowView(i))
		}
		f := testref.Must(net.Forward(t.Context(), rows))(t)
		for i := range 3 {
			want := make([]float64, 2)
			for k := range 3 {
				h := c.bias
				for j := range 4 {
					h += c.rate * x.At(i, j) * w[3*j+k]
				}
				if !c.linear {
					h = math.Tanh(h)
				}
				h += 2 * c.state
				if d > 4 { // the state is in the row, as 2×3
					h += rows.At(i, 4+k) + rows.At(i, 7+k)
				}
				for o := range 2 {
					want[o] += math.Tanh(h) * v[2*k+o]
				}
			}
			testref.RequireClose(t, f.RawRowView(i), want, 1e-15, "f")
		}
		requireRowwise(t, net, rows)
		requireDifferences(t, net)
		require.Equal(t, net.Fingerprint(), roundTrip(t, net).Fingerprint())
		require.Equal(t, net.Inputs(), roundTrip(t, net).Inputs())
		again := testref.Must(network.ReadONNX(bytes.NewReader(written(t, net)), &network.ReadOptions{Bind: c.bound}))(t)
		require.Equal(t, net.Fingerprint(), again.Fingerprint(), "a file that was written says what was given")
	}
}

// TestExamplesAlongAnotherDimension compares inputs 5×N×3 and 1×N×4 with the same graph of N×5×3 and N×1×4, and an
// output 2×N×3 with its transpose.
func TestExamplesAlongAnotherDimension(t *testing.T) {
	make := func(first bool) *onnx.Model {
		g := newGraph(17)
		x := g.model.Graph.Inputs[0]
		z := &onnx.ValueInfo{Name: "z", Type: onnx.Double, HasShape: true, Dims: []onnx.Dim{openDim("n"), fixedDim(1), fixedDim(4)}}
		x.Dims = []onnx.Dim{openDim("n"), fixedDim(5), fixedDim(3)}
		a, b := "x", "z"
		if first {
			a, b = g.op("Transpose", in("x"), intsA("perm", 1, 0, 2)), g.op("Transpose", in("z"), intsA("perm", 1, 0, 2))
		} else {
			for _, v := range []*onnx.ValueInfo{x, z} {
				v.Dims[0], v.Dims[1] = v.Dims[1], v.Dims[0]
			}
		}
		g.model.Graph.Inputs = append(g.model.Graph.Inputs, z)
		h := g.op("MatMul", in(a, g.param(3, 6)))
		h = g.op("Add", in(g.op("ReduceMean", in(h), intsA("axes", 0), intA("keepdims", 0)), g.op("MatMul", in(b, g.param(4, 6)))))
		h = g.op("Reshape", in(g.op("Tanh", in(h)), g.ints(-1, 2, 3)))
		perm := intsA("perm", 0, 1, 2)
		if !first {
			perm = intsA("perm", 1, 0, 2)
		}
		return g.output(g.op("Transpose", in(h), perm))
	}
	want := mustLoad(t, make(true))
	for _, bound := range []map[string]string{{"z": "1,n,4"}, {"z": "1,n,4", "x": "5,rows,3"}} {
		got := testref.Must(readModel(make(false), &network.ReadOptions{Bind: bound}))(t)
		require.Equal(t, want.Inputs(), got.Inputs())
		x := inputsOf(want, rand.New(rand.NewPCG(1, 2)), 4)
		requireSame(t, testref.Must(got.Linearize(t.Context(), x))(t), testref.Must(want.Linearize(t.Context(), x))(t))
		requireRowwise(t, got, x)
		require.Equal(t, got.Fingerprint(), roundTrip(t, got).Fingerprint())
	}
	_, err := readModel(make(false), nil)
	require.ErrorContains(t, err, `input "z" has no fixed size in dimension 1 n (if the examples are along it, ReadOptions.Bind z=1,n,4); give what is open with ReadOptions.Bind n=SIZE`)
}

// TestOutputInside takes tensors inside a graph.
func TestOutputInside(t *testing.T) {
	g := newGraph(17, 3)
	h := g.op("Tanh", in(g.op("Gemm", in("x", g.param(3, 4)))))
	z := g.op("Gemm", in(h, g.param(4, 2)))
	m := g.output(g.op("ArgMax", in(z), intA("axis", 1)))
	x := gaussianMatrix(rand.New(rand.NewPCG(1, 2)), 4, 3)
	for name, outputs := range map[string]int{h: 4, z: 2} {
		net := testref.Must(readModel(m, &network.ReadOptions{Output: name}))(t)
		_, c, _ := net.Dims()
		require.Equal(t, outputs, c)
		requireRowwise(t, net, x)
		requireDifferences(t, net)
		require.Equal(t, net.Fingerprint(), roundTrip(t, net).Fingerprint())
	}
	for _, name := range []string{"x", m.Graph.Initializers[0].Name, "nothing"} {
		_, err := readModel(m, &network.ReadOptions{Output: name})
		require.ErrorContains(t, err, "the model has no tensor")
	}
}

// TestBindRefused checks that what cannot be given says what can be.
func TestBindRefused(t *testing.T) {
	for _, c := range []struct{ name, value, want string }{
		{"size", "4", `no input and no open dimension "size"`},
		{"n", "0", "whole number of 1 or more"},
		{"n", "4,4", "whole number of 1 or more"},
		{"x", "n,5", "has the shape n,4, which fixes dimension 1"},
		{"x", "n,4,1", "has the shape n,4 of 2 dimensions, not 3"},
		{"x", "n,m", "2 letters"},
		{"x", "n,-4", "takes one number, or its whole shape"},
		{"rate", "1.5", "holds int64 numbers; give a whole one"},
		{"rate", "1e300", "holds int64 numbers"},
		{"rate", "NaN", "holds int64 numbers"},
		{"training", "2", "holds bool numbers; give a whole one from 0 to 1"},
		{"bias", "Inf", "must be a finite number"},
		{"bias", "", "takes one number, or its whole shape"},
	} {
		_, err := readModel(withOptions().model, &network.ReadOptions{Bind: map[string]string{c.name: c.value}})
		require.ErrorContains(t, err, c.want)
		requireOneLine(t, err)
	}
	_, err := readModel(withOptions().model, nil)
	require.ErrorContains(t, err, "ReadOptions.Bind rate=VALUE, ReadOptions.Bind training=VALUE, ReadOptions.Bind bias=VALUE")
	m := withOptions().model
	m.Graph.Inputs = slices.Delete(m.Graph.Inputs, 0, 1)
	m.Graph.Nodes = slices.Insert(m.Graph.Nodes, 0, &onnx.Node{OpType: "Identity", Inputs: in("bias"), Outputs: in("x")})
	_, err = readModel(m, &network.ReadOptions{Bind: map[string]string{"rate": "1", "training": "1", "bias": "1", "state": "0"}})
	require.ErrorContains(t, err, "no other input says its size")
}
