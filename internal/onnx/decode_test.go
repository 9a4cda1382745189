package onnx

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/testref"
)

// file is a model written by hand that uses every field this package knows.
func file() []byte {
	node := msg(
		stringField(1, "x"), stringField(1, ""), stringField(1, "w"), stringField(2, "y"),
		stringField(3, "/fc/Gemm"), stringField(4, "Gemm"), stringField(7, "ai.onnx"), stringField(6, "first layer"),
		bytesField(5, msg(stringField(1, "alpha"), fixed32Field(2, f32(0.1)), intField(20, 1))),
		bytesField(5, msg(stringField(1, "transB"), intField(3, 0), intField(20, 2))),
		bytesField(5, msg(stringField(1, "mode"), stringField(4, "nearest"), intField(20, 3))),
		bytesField(5, msg(stringField(1, "value"), bytesField(5, msg(dims(1), typed(Int64), intField(7, 9))), intField(20, 4))),
		bytesField(5, msg(stringField(1, "scales"), packedField(7, le32(f32(2)), le32(f32(0.5))), intField(20, 6))),
		bytesField(5, msg(stringField(1, "pads"), intField(8, 1), intField(8, -1), intField(20, 7))),
		bytesField(5, msg(stringField(1, "names"), stringField(9, "a"), stringField(9, ""), intField(20, 8))),
		bytesField(5, msg(stringField(1, "body"), bytesField(6, msg(bytesField(1, stringField(4, "Neg")), stringField(2, "branch"))), stringField(13, "doc"), intField(20, 5))),
		bytesField(5, msg(stringField(1, "bodies"), bytesField(11, stringField(2, "first")), bytesField(11, nil), intField(20, 10))),
		stringField(8, "overload"), bytesField(9, stringField(1, "key")),
	)
	function := msg(
		stringField(1, "Twice"), stringField(4, "a"), stringField(4, "b"), stringField(5, "c"), stringField(6, "alpha"), stringField(6, "beta"),
		bytesField(7, msg(stringField(4, "Gemm"), bytesField(5, msg(stringField(1, "alpha"), intField(20, 1), stringField(21, "alpha"))))),
		stringField(8, "doubles"), bytesField(9, intField(2, 17)), stringField(10, "org.x"),
		bytesField(11, msg(stringField(1, "beta"), fixed32Field(2, f32(2)), intField(20, 1))), stringField(13, "double"), bytesField(14, []byte{0xff}),
	)
	shape := msg(
		bytesField(1, stringField(2, "batch")), bytesField(1, intField(1, 5)), bytesField(1, nil), bytesField(1, intField(1, -1)),
		bytesField(1, msg(stringField(2, "n"), intField(1, 3))),
	)
	tensorType := func(elem int64, shape ...[]byte) []byte {
		return bytesField(2, bytesField(1, msg(append([][]byte{intField(1, elem)}, shape...)...)))
	}
	graph := msg(
		bytesField(1, node), bytesField(1, stringField(4, "Relu")),
		stringField(2, "g"), stringField(10, "a graph"),
		bytesField(5, msg(dims(2), typed(Float), stringField(8, "w"), packedField(4, le32(f32(1)), le32(f32(2))), stringField(12, "weights"))),
		bytesField(11, msg(stringField(1, "x"), tensorType(1, bytesField(2, shape)), stringField(3, "input"))),
		bytesField(12, msg(stringField(1, "y"), tensorType(11))),
		bytesField(13, msg(stringField(1, "s"), tensorType(7, bytesField(2, nil)))),
		bytesField(13, msg(stringField(1, "list"), bytesField(2, bytesField(4, bytesField(1, nil))))),
		bytesField(15, []byte{0xff}),
	)
	return msg(
		intField(1, 8), stringField(2, "pytorch"), stringField(3, "2.6.0"), stringField(4, "org.x"), intField(5, -3),
		stringField(6, "doc"), bytesField(7, graph), bytesField(8, intField(2, 17)),
		bytesField(8, msg(stringField(1, "ai.onnx.ml"), intField(2, 3))),
		bytesField(14, msg(stringField(1, "likelihood"), stringField(2, "bernoulli"))),
		bytesField(20, []byte{0xff}), intField(99, 1), bytesField(25, function),
	)
}

func model() *Model {
	return &Model{
		IRVersion: 8, ProducerName: "pytorch", ProducerVersion: "2.6.0", Domain: "org.x", ModelVersion: -3, DocString: "doc",
		OpsetImport: []Opset{{"", 17}, {"ai.onnx.ml", 3}},
		Metadata:    []Entry{{"likelihood", "bernoulli"}},
		Graph: &Graph{
			Name: "g", DocString: "a graph",
			Nodes: []*Node{{
				Name: "/fc/Gemm", OpType: "Gemm", Domain: "ai.onnx", DocString: "first layer",
				Inputs: []string{"x", "", "w"}, Outputs: []string{"y"},
				Attributes: []*Attribute{
					{Name: "alpha", Type: AttrFloat, F: 0.1},
					{Name: "transB", Type: AttrInt},
					{Name: "mode", Type: AttrString, S: []byte("nearest")},
					{Name: "value", Type: AttrTensor, T: &Tensor{Dims: []int64{1}, Type: Int64, Ints: []int64{9}}},
					{Name: "scales", Type: AttrFloats, Floats: []float32{2, 0.5}},
					{Name: "pads", Type: AttrInts, Ints: []int64{1, -1}},
					{Name: "names", Type: AttrStrings, Strings: [][]byte{[]byte("a"), nil}},
					{Name: "body", Type: AttrGraph, G: &Graph{Name: "branch", Nodes: []*Node{{OpType: "Neg"}}}, Raw: stringField(13, "doc")},
					{Name: "bodies", Type: AttrGraphs, Graphs: []*Graph{{Name: "first"}, {}}},
				},
				Overload: "overload", Unknown: bytesField(9, stringField(1, "key")),
			}, {OpType: "Relu"}},
			Initializers: []*Tensor{{Name: "w", Dims: []int64{2}, Type: Float, Floats: []float64{1, 2}, Unknown: stringField(12, "weights")}},
			Inputs: []*ValueInfo{{
				Name: "x", Type: Float, HasShape: true, Unknown: stringField(3, "input"),
				Dims: []Dim{{Param: "batch"}, {Value: 5, HasValue: true}, {}, {Value: -1, HasValue: true}, {Value: 3, HasValue: true}},
			}},
			Outputs: []*ValueInfo{{Name: "y", Type: Double}},
			ValueInfos: []*ValueInfo{
				{Name: "s", Type: Int64, HasShape: true},
				{Name: "list", Unknown: bytesField(2, bytesField(4, bytesField(1, nil)))},
			},
			Unknown: bytesField(15, []byte{0xff}),
		},
		Functions: []*Function{{
			Domain: "org.x", Name: "Twice", Overload: "double", Inputs: []string{"a", "b"}, Outputs: []string{"c"}, Attributes: []string{"alpha", "beta"},
			Defaults:    []*Attribute{{Name: "beta", Type: AttrFloat, F: 2}},
			Nodes:       []*Node{{OpType: "Gemm", Attributes: []*Attribute{{Name: "alpha", Type: AttrFloat, Ref: "alpha"}}}},
			OpsetImport: []Opset{{"", 17}}, DocString: "doubles", Unknown: bytesField(14, []byte{0xff}),
		}},
		Unknown: msg(bytesField(20, []byte{0xff}), intField(99, 1)),
	}
}

func TestDecodeEveryField(t *testing.T) {
	got := testref.Must(Decode(file()))(t)
	require.Equal(t, model(), got)
}

func TestEncodeEveryField(t *testing.T) {
	b := testref.Must(model().Encode())(t)
	got := testref.Must(Decode(b))(t)
	require.Equal(t, model(), got)

	var w bytes.Buffer
	require.NoError(t, got.Write(&w))
	require.Equal(t, b, w.Bytes(), "equal models give equal bytes")
}

func TestAttr(t *testing.T) {
	n := model().Graph.Nodes[0]
	require.Equal(t, []int64{1, -1}, n.Attr("pads").Ints)
	require.Nil(t, n.Attr("axis"))
}

// A decoded model shares no memory with the bytes it came from.
func TestDecodeCopies(t *testing.T) {
	b := file()
	got := testref.Must(Decode(b))(t)
	for i := range b {
		b[i] = 0xee
	}
	require.Equal(t, model(), got)
}

// Every prefix of a file is an error or a smaller model, never a panic, and
// one that ends within the graph is an error.
func TestTruncated(t *testing.T) {
	b := file()
	end := bytes.Index(b, bytesField(8, intField(2, 17))) // first byte after the graph
	require.Positive(t, end)
	for n := range end {
		_, err := Decode(b[:n])
		var e *FormatError
		require.ErrorAs(t, err, &e, "%d bytes", n)
		require.NotContains(t, err.Error(), "\n")
	}
	for n := end; n < len(b); n++ {
		_, _ = Decode(b[:n])
	}
}

// Attributes of IR version 1 have no type; it is taken from the value.
func TestAttributeWithoutType(t *testing.T) {
	decode := func(fields ...[]byte) (*Attribute, error) {
		m, err := Decode(bytesField(7, bytesField(1, msg(stringField(4, "Op"), bytesField(5, msg(stringField(1, "a"), msg(fields...)))))))
		if err != nil {
			return nil, err
		}
		return m.Graph.Nodes[0].Attributes[0], nil
	}
	for want, f := range map[AttrType][]byte{
		AttrFloat:        fixed32Field(2, 0),
		AttrInt:          intField(3, 0),
		AttrString:       stringField(4, ""),
		AttrTensor:       bytesField(5, msg(typed(Float), fixed32Field(4, 0))),
		AttrGraph:        bytesField(6, nil),
		AttrFloats:       msg(fixed32Field(7, 0), packedField(7, le32(1))),
		AttrInts:         intField(8, 4),
		AttrStrings:      stringField(9, ""),
		AttrGraphs:       bytesField(11, nil),
		AttrSparseTensor: bytesField(22, nil),
		AttrUndefined:    nil,
	} {
		a := testref.Must(decode(f))(t)
		require.Equal(t, want, a.Type)
	}
	_, err := decode(intField(3, 1), fixed32Field(2, 0))
	require.ErrorContains(t, err, "no type, and values of more than one")
	_, err = decode(intField(20, int64(AttrTensor)))
	require.ErrorContains(t, err, "a tensor is announced and not there")
	_, err = decode(intField(20, 4), bytesField(5, msg(typed(Float), fixed32Field(4, 0))), bytesField(5, nil))
	require.ErrorContains(t, err, "a second tensor")
	require.ErrorContains(t, testref.Err(decode(intField(20, int64(AttrGraph)))), "a graph is announced and not there")
	_, err = decode(intField(20, 5), bytesField(6, nil), bytesField(6, nil))
	require.ErrorContains(t, err, "a second graph")
	_, err = decode(bytesField(11, nil), bytesField(11, stringField(1, "no node")))
	require.ErrorContains(t, err, "graph 1, node 0: ")
	a := testref.Must(decode(intField(20, int64(AttrTensor)), stringField(21, "of the call")))(t)
	require.Equal(t, "of the call", a.Ref)
}

// Graphs inside one another are read to a depth, so that a file cannot exhaust the stack.
func TestDepth(t *testing.T) {
	nested := func(depth int) []byte {
		var b []byte
		for range depth {
			b = bytesField(1, msg(stringField(4, "If"), bytesField(5, msg(stringField(1, "then_branch"), bytesField(6, b), intField(20, 5)))))
		}
		return bytesField(7, b)
	}
	require.NoError(t, testref.Err(Decode(nested(MaxDepth-1))))
	require.ErrorContains(t, testref.Err(Decode(nested(MaxDepth))), "more than 32 graphs inside one another")
	_, err := Decode(nested(1_000))
	require.ErrorContains(t, err, "more than 32 graphs inside one another")
	require.Less(t, len(err.Error()), 4_000)
}

// Each error is one line that says where the fault is.
func TestErrorsNameThePlace(t *testing.T) {
	long := strings.Repeat("n", 1000)
	for _, c := range []struct {
		b    []byte
		want string
	}{
		{nil, "onnx: the file is empty"},
		{[]byte("not a model\n"), "onnx: field 13 has wire type 6, which ONNX does not use: damaged, or not an ONNX file (at byte 0)"},
		{[]byte("PK\x03\x04zipped"), "onnx: malformed field: damaged, or not an ONNX file (at byte 2)"},
		{intField(1, 8), "onnx: there is no graph: not an ONNX model"},
		{msg(bytesField(7, nil), bytesField(7, nil)), "onnx: graph: a second graph (at byte 2)"},
		{bytesField(7, bytesField(1, msg(stringField(3, "n")))), `onnx: graph, node 0 "n": it names no operator (at byte 2)`},
		{bytesField(7, msg(bytesField(1, stringField(4, "Relu")), bytesField(1, msg(stringField(4, "Op\n"), stringField(3, long), bytesField(5, msg(stringField(1, "value"), bytesField(5, typed(Float)))))))),
			`onnx: graph, node 1 "` + long[:80] + `…" (Op\n), attribute 0 "value", tensor: shape [] has 1 elements, but the file holds 0 (at byte `},
		{bytesField(7, bytesField(1, msg(stringField(4, "Op"), bytesField(5, msg(stringField(1, "value"), bytesField(5, msg(dims(-1), typed(Float), stringField(8, "t")))))))),
			`onnx: graph, node 0 (Op), attribute 0 "value", tensor "t": dimension 0 is -1 (at byte`},
		{bytesField(7, bytesField(12, msg(stringField(1, "y"), bytesField(2, nil), bytesField(2, nil)))), `onnx: graph, output 0 "y": a second type (at byte`},
		{bytesField(7, bytesField(11, bytesField(2, bytesField(1, []byte{0x80})))), `onnx: graph, input 0, type: the bytes end within a value`},
	} {
		_, err := Decode(c.b)
		require.ErrorContains(t, err, c.want)
		require.NotContains(t, err.Error(), "\n")
	}
	for want, m := range map[string]*Model{
		"onnx: the model has no graph":                                                       {},
		`onnx: graph, node 0 "n": it names no operator`:                                      {Graph: &Graph{Nodes: []*Node{{Name: "n"}}}},
		`onnx: graph, node 0 (Op), attribute 0 "value": a tensor is announced and not there`: {Graph: &Graph{Nodes: []*Node{{OpType: "Op", Attributes: []*Attribute{{Name: "value", Type: AttrTensor}}}}}},
	} {
		require.EqualError(t, testref.Err(m.Encode()), want)
	}
}

func TestReadAndWrite(t *testing.T) {
	got := testref.Must(Read(iotest.OneByteReader(bytes.NewReader(file()))))(t)
	require.Equal(t, model(), got)

	broken := errors.New("disk on fire")
	require.ErrorIs(t, testref.Err(Read(iotest.ErrReader(broken))), broken)
	require.ErrorContains(t, testref.Err(read(bytes.NewReader(file()), int64(len(file())-1))), "an ONNX file can have")
	require.NoError(t, testref.Err(read(bytes.NewReader(file()), int64(len(file())))))

	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /dev/full here")
	}
	defer full.Close()
	require.ErrorContains(t, model().Write(full), "onnx: writing: ")
}

// Every model exported by PyTorch decodes, and encodes to an equal one. It has as
// many parameters as the reference Jacobian has columns, with the values of θ
// where the reference has them (float64 files).
func TestReferences(t *testing.T) {
	for _, name := range testref.References(t) {
		t.Run(name, func(t *testing.T) {
			ref := testref.Open(t, name)
			m := testref.Must(Decode(ref.Model(t)))(t)
			require.Equal(t, "pytorch", m.ProducerName)
			require.NotEmpty(t, m.OpsetImport)
			require.Len(t, m.Graph.Inputs, 1)
			require.Len(t, m.Graph.Outputs, 1)
			checkNames(t, m.Graph)
			checkTheta(t, m.Graph, ref)

			b := testref.Must(m.Encode())(t)
			again := testref.Must(Decode(b))(t)
			require.Equal(t, m, again)
		})
	}
}

// checkNames checks that the graph defines each input of a node.
func checkNames(t *testing.T, g *Graph) {
	require.NotEmpty(t, g.Nodes)
	known := map[string]bool{"": true}
	for _, v := range g.Inputs {
		known[v.Name] = true
	}
	for _, x := range g.Initializers {
		require.NotEmpty(t, x.Name)
		known[x.Name] = true
	}
	for _, n := range g.Nodes {
		require.NotEmpty(t, n.Outputs)
		for _, in := range n.Inputs {
			require.True(t, known[in], "%s reads %q", n.Name, in)
		}
		for _, out := range n.Outputs {
			known[out] = true
		}
	}
	require.True(t, known[g.Outputs[0].Name])
}

// checkTheta finds the reference's θ among the initializers, in file order.
func checkTheta(t *testing.T, g *Graph, ref *testref.Ref) {
	if !ref.Has("theta") {
		return
	}
	order := map[string]bool{}
	if ref.HasMeta("order") {
		for name := range strings.SplitSeq(ref.Meta("order"), ",") {
			order[name] = true
		}
	}
	var theta []float64
	for _, x := range g.Initializers {
		require.Equal(t, Double, x.Type)
		if len(order) == 0 || order[x.Name] {
			theta = append(theta, x.Floats...)
		}
	}
	require.Equal(t, ref.Floats("theta"), theta)
}

// The graph of one file, node by node, as PyTorch prints it.
func TestReferenceGraph(t *testing.T) {
	m := testref.Must(Decode(testref.Open(t, "layers/cnn-maxpool").Model(t)))(t)
	var ops []string
	for _, n := range m.Graph.Nodes {
		ops = append(ops, n.OpType)
	}
	require.Equal(t, []string{"Conv", "Relu", "MaxPool", "Conv", "Relu", "Flatten", "Gemm"}, ops)
	require.Equal(t, []int64{1, 1, 1, 1}, m.Graph.Nodes[3].Attr("pads").Ints)
	require.Equal(t, []int64{2, 2}, m.Graph.Nodes[2].Attr("kernel_shape").Ints)
	require.Equal(t, int64(1), m.Graph.Nodes[6].Attr("transB").I)
	require.Equal(t, float32(1), m.Graph.Nodes[6].Attr("alpha").F)
	require.Equal(t, []int64{3, 1, 3, 3}, m.Graph.Initializers[0].Dims)
	require.Equal(t, Double, m.Graph.Inputs[0].Type)
	require.Equal(t, int64(17), m.OpsetImport[0].Version)
}

// FuzzDecode: any bytes are an error or a model that encodes, and the result
// decodes to the same model. Run it with -fuzzminimizetime=10x: by default the
// fuzzer spends a minute shrinking each new input.
func FuzzDecode(f *testing.F) {
	f.Add(file())
	f.Add([]byte("not a model"))
	f.Add(tensorFile(dims(1<<30, 1<<30), typed(Float), stringField(tensorName, "w"), packedField(tensorFloats, le32(1))))
	f.Add(tensorFile(dims(2), typed(Float16), packedField(tensorInt32s, varint(0x7e01), varint(1))))
	f.Add(tensorFile(dims(2), typed(Int8), packedField(tensorInt32s, varint(-1), varint(1))))
	f.Add(tensorFile(dims(2), typed(String), stringField(tensorStrings, "a"), stringField(tensorStrings, "")))
	for _, pattern := range []string{"*/model.onnx", "*/*/model.onnx"} {
		paths, err := filepath.Glob(filepath.Join("..", "..", "testdata", "reference", filepath.FromSlash(pattern)))
		if err != nil {
			f.Fatal(err)
		}
		for _, path := range paths {
			b := testref.Must(os.ReadFile(path))(f)
			if len(b) <= 4<<10 { // large seeds slow the fuzzer and hold nothing but more weights
				f.Add(b)
			}
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Decode(b)
		if err != nil {
			testref.As[*FormatError](t, err)
			return
		}
		once := testref.Must(m.Encode())(t)
		again := testref.Must(Decode(once))(t)
		twice := testref.Must(again.Encode())(t)
		require.Equal(t, once, twice)
		withoutNaN(m)
		withoutNaN(again)
		require.Equal(t, m, again)
	})
}

// withoutNaN puts a number in place of each NaN, which equals nothing.
func withoutNaN(m *Model) {
	for _, x := range m.Graph.Initializers {
		tensorWithoutNaN(x)
	}
	for _, n := range m.Graph.Nodes {
		for _, a := range n.Attributes {
			if a.F != a.F {
				a.F = 12345
			}
			for i, v := range a.Floats {
				if v != v {
					a.Floats[i] = 12345
				}
			}
			if a.T != nil {
				tensorWithoutNaN(a.T)
			}
		}
	}
}

func tensorWithoutNaN(x *Tensor) {
	for i, v := range x.Floats {
		if v != v {
			x.Floats[i] = 12345
		}
	}
}
