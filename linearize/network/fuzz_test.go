package network_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/linearize/network/head"
)

// FuzzReadONNX reads bytes as a model and runs the network if that succeeds.
func FuzzReadONNX(f *testing.F) {
	for _, name := range testref.References(f) {
		if ref := testref.Open(f, name); len(ref.Model(f)) < 8<<10 { // large ones only slow it down
			f.Add(ref.Model(f))
		}
	}
	for i, c := range operatorCases() {
		if data, err := c.model().Encode(); err == nil && i%4 == 0 {
			f.Add(data)
		}
	}
	for _, c := range slices.Concat(mixingCases(), hostileCases()) {
		if data, err := c.model().Encode(); err == nil && len(data) < 4<<10 {
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := onnx.Decode(data)
		if err == nil {
			tryModel(t, m, data)
		}
	})
}

// FuzzGraph changes the graph of a valid model, which reaches further than
// changing bytes. A graph that is still read must compute what the evaluator
// computes.
func FuzzGraph(f *testing.F) {
	cases := encodedCases()
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range cases {
		choices := make([]byte, 12)
		for j := range choices {
			choices[j] = byte(rng.Uint32())
		}
		f.Add(uint16(i), choices)
	}
	f.Fuzz(func(t *testing.T, which uint16, choices []byte) {
		m := testref.Must(onnx.Decode(cases[int(which)%len(cases)]))(t)
		(&mutator{model: m, bytes: choices}).run()
		if data, err := m.Encode(); err == nil {
			tryModel(t, m, data)
		}
	})
}

// encodedCases returns the models of all cases as files, so that each decoded
// copy can be changed.
func encodedCases() [][]byte {
	var all [][]byte
	for _, c := range operatorCases() {
		data, err := c.model().Encode()
		if err != nil {
			panic(err)
		}
		all = append(all, data)
	}
	return all
}

// tryModel reads a model and, if it is small, runs it.
func tryModel(t *testing.T, m *onnx.Model, data []byte) {
	var net *network.Network
	var err error
	limit := uint64(hostileBytes + 400*len(data))
	if used := allocated(func() {
		net, err = network.ReadONNX(bytes.NewReader(data), &network.ReadOptions{Head: head.Keep})
	}); used > limit {
		t.Fatalf("reading %d bytes allocated %d", len(data), used)
	}
	if err != nil {
		requireOneLine(t, err)
		return
	}
	if _, err := network.ReadONNX(bytes.NewReader(data), nil); err != nil {
		t.Fatalf("the network is read with its head, and not without: %v", err)
	}
	d, c, p := net.Dims()
	if net.Effort() > 1<<15 || d > 1000 || c > 100 || p > 2000 {
		return
	}
	rows := 2
	if dim := m.Graph.Inputs[0].Dims[0]; dim.HasValue && dim.Value > 0 {
		rows = int(min(dim.Value, 8))
	}
	x := inputsOf(net, rand.New(rand.NewPCG(3, 4)), rows)
	out, err := net.Forward(t.Context(), x)
	if err != nil {
		requireOneLine(t, err)
		return
	}
	moderate := compareEvaluated(t, m, net, x, out)
	// Outputs that are finite may have derivatives that are not.
	if _, err := net.Linearize(t.Context(), x); err != nil {
		requireOneLine(t, err)
		if !strings.Contains(err.Error(), "no derivative there") {
			t.Fatalf("Forward ran and Linearize did not: %v", err)
		}
	}
	// Away from θ*, which may lie on a kink.
	theta := net.Theta()
	for i, v := range gaussianMatrix(rand.New(rand.NewPCG(7, 8)), 1, p).RawMatrix().Data {
		theta[i] += 0.01 * v
	}
	moved := testref.Must(net.WithTheta(theta))(t)
	straight := slices.ContainsFunc(m.Graph.Nodes, func(n *onnx.Node) bool { return n.OpType == "QuantizeLinear" })
	if b, err := moved.Linearize(t.Context(), x); err == nil && moderate && !straight {
		compareProducts(t, moved, b, x)
	}
}

// compareEvaluated compares outputs with those of the evaluator. The tolerance is
// the effect of a change of the inputs in their last digits. It reports whether
// the numbers are small enough to check derivatives by differences.
func compareEvaluated(t *testing.T, m *onnx.Model, net *network.Network, x, out *mat.Dense) (moderate bool) {
	rows, _ := x.Dims()
	inside := 0.0 // the largest number on the way
	at := func(scale float64) []float64 {
		y := mat.DenseCopyOf(x)
		y.Apply(func(_, j int, v float64) float64 {
			if ofInteger(net, j) {
				return v
			}
			return scale * v
		}, y)
		whole := &tensor{shape: append([]int{rows}, net.InputShape()...), data: y.RawMatrix().Data}
		e, want, err := tryRun(m, whole)
		if err != nil {
			return nil
		}
		for _, v := range e.env {
			for _, number := range v.data {
				inside = max(inside, math.Abs(number))
			}
		}
		return examplesFirst(m, whole, want, false).data
	}
	want, near := at(1), at(1+1e-11)
	if want == nil || near == nil {
		return false
	}
	got := out.RawMatrix().Data
	if len(got) != len(want) {
		t.Fatalf("%d outputs, the evaluator has %d", len(got), len(want))
	}
	largest := 0.0
	for i, v := range want {
		if math.IsNaN(v) || math.IsInf(v, 0) || math.IsNaN(near[i]) {
			return false
		}
		largest = max(largest, math.Abs(v))
	}
	for i := range want {
		if diff := math.Abs(got[i] - want[i]); diff > 1e-9*largest+10*math.Abs(near[i]-want[i])+1e-12*inside {
			t.Fatalf("output %d is %v, the evaluator has %v", i, got[i], want[i])
		}
	}
	return inside < 1e5
}

// tryRun is run, but returns a panic of an index as a refusal.
func tryRun(m *onnx.Model, x *tensor) (e *evaluator, out *tensor, err error) {
	defer func() {
		if r := recover(); r != nil {
			broken, ok := r.(runtime.Error)
			if !ok {
				panic(r)
			}
			err = fmt.Errorf("evaluate: %w", broken)
		}
	}()
	return run(m, x, nil)
}

// compareProducts checks Jᵀu by one backward pass against the Batch, and J v
// against differences where two step sizes agree on them.
func compareProducts(t *testing.T, net *network.Network, b *linearize.Batch, x *mat.Dense) {
	_, c, p := net.Dims()
	rng := rand.New(rand.NewPCG(5, 6))
	u, v := gaussianMatrix(rng, b.Len(), c), gaussianMatrix(rng, 1, p).RawMatrix().Data
	got, want, jv := make([]float64, p), make([]float64, p), make([]float64, b.Len()*c)
	b.MulTransVecTo(want, u.RawMatrix().Data)
	b.MulVecTo(jv, v)
	if err := net.VJP(t.Context(), got, x, u); err != nil || !finite(want) || !finite(jv) {
		return
	}
	if worst, scale := distance(got, want); worst > 1e-9*scale+1e-12 {
		t.Fatalf("Jᵀu is off by %g of %g", worst, scale)
	}
	slope := func(h float64) []float64 {
		out := make([]float64, len(jv))
		for _, sign := range []float64{1, -1} {
			theta := net.Theta()
			for i := range theta {
				theta[i] += sign * h * v[i]
			}
			moved, err := net.WithTheta(theta)
			if err != nil {
				return nil
			}
			f, err := moved.Forward(t.Context(), x)
			if err != nil {
				return nil
			}
			for i, y := range f.RawMatrix().Data {
				out[i] += sign * y / (2 * h)
			}
		}
		return out
	}
	coarse, fine := slope(2e-5), slope(1e-5)
	if coarse == nil || fine == nil {
		return
	}
	smooth, _ := distance(coarse, fine)
	_, f := distance(b.F.RawMatrix().Data, b.F.RawMatrix().Data)
	// Rounding of f leaves about 1e-16/1e-5 of it in a difference.
	if worst, scale := distance(fine, jv); smooth < 1e-7*scale && worst > 1e-4*scale+1e-9*f {
		t.Fatalf("J v is off by %g of %g", worst, scale)
	}
}

func finite(v []float64) bool {
	return !slices.ContainsFunc(v, func(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) })
}

// distance returns the largest difference and the largest entry.
func distance(a, b []float64) (worst, scale float64) {
	for i := range a {
		worst, scale = max(worst, math.Abs(a[i]-b[i])), max(scale, math.Abs(a[i]), math.Abs(b[i]))
	}
	return worst, scale
}

// A mutator makes the changes of a model that its bytes encode.
type mutator struct {
	model *onnx.Model
	bytes []byte
}

// pick returns a number below n, 0 when there are no bytes left.
func (m *mutator) pick(n int) int {
	if len(m.bytes) == 0 || n <= 1 {
		return 0
	}
	v := int(m.bytes[0])
	m.bytes = m.bytes[1:]
	return v % n
}

func (m *mutator) run() {
	steps := []func(){m.attribute, m.attribute, m.addAttribute, m.dropAttribute, m.operator, m.rewire, m.rewire, m.arity,
		m.integer, m.integer, m.shape, m.dropNode, m.opset, m.inputDims, m.output, m.insert, m.insert, m.batch, m.scalarize}
	for range 8 {
		if len(m.bytes) == 0 {
			return
		}
		steps[m.pick(len(steps))]()
	}
}

// integers are worth trying anywhere.
var integers = []int64{0, 1, 2, 3, 4, 5, 6, 8, -1, -2, -3, -4, 7, 10, 16, 100, 1 << 12, 1 << 24, 1 << 31, 1 << 40, math.MaxInt64, math.MinInt64, -100}

func (m *mutator) number() int64 { return integers[m.pick(len(integers))] }

func (m *mutator) node() *onnx.Node {
	if len(m.model.Graph.Nodes) == 0 {
		return &onnx.Node{}
	}
	return m.model.Graph.Nodes[m.pick(len(m.model.Graph.Nodes))]
}

// names returns every value of the graph.
func (m *mutator) names() []string {
	all := []string{"x"}
	for _, t := range m.model.Graph.Initializers {
		all = append(all, t.Name)
	}
	for _, n := range m.model.Graph.Nodes {
		all = append(all, n.Outputs...)
	}
	return all
}

func (m *mutator) name() string {
	all := m.names()
	return all[m.pick(len(all))]
}

var words = []string{"constant", "reflect", "edge", "wrap", "nearest", "linear", "SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET", "asymmetric",
	"half_pixel", "align_corners", "pytorch_half_pixel", "floor", "ceil", "round_prefer_floor", "round_prefer_ceil", "tanh", "none", ""}

func (m *mutator) attribute() {
	n := m.node()
	if len(n.Attributes) > 0 {
		m.vary(n.Attributes[m.pick(len(n.Attributes))])
	}
}

func (m *mutator) vary(a *onnx.Attribute) {
	switch a.Type {
	case onnx.AttrInt:
		a.I = m.number()
	case onnx.AttrFloat:
		a.F = []float32{0, 1, -1, 0.5, 2, 1e-30, 1e30, float32(math.Inf(1)), float32(math.NaN())}[m.pick(9)]
	case onnx.AttrString:
		a.S = []byte(words[m.pick(len(words))])
	case onnx.AttrInts:
		switch k := m.pick(len(a.Ints) + 3); {
		case k < len(a.Ints):
			a.Ints[k] = m.number()
		case k == len(a.Ints):
			a.Ints = append(a.Ints, m.number())
		case k == len(a.Ints)+1 && len(a.Ints) > 0:
			a.Ints = a.Ints[1:]
		default:
			slices.Reverse(a.Ints)
		}
	case onnx.AttrTensor:
		m.reshape(a.T)
	}
}

// vocabulary holds an attribute of every name and type that the cases have.
var vocabulary = func() []onnx.Attribute {
	var all []onnx.Attribute
	seen := map[string]bool{}
	for _, c := range operatorCases() {
		for _, n := range c.model().Graph.Nodes {
			for _, a := range n.Attributes {
				if key := a.Name + a.Type.String(); !seen[key] {
					seen[key] = true
					all = append(all, *a)
				}
			}
		}
	}
	return all
}

var attributePool = vocabulary()

func (m *mutator) addAttribute() {
	n, a := m.node(), attributePool[m.pick(len(attributePool))]
	a.Ints = slices.Clone(a.Ints)
	if a.T != nil {
		t := *a.T
		a.T = &t
	}
	n.Attributes = append(n.Attributes, &a)
}

func (m *mutator) dropAttribute() {
	n := m.node()
	if k := len(n.Attributes); k > 0 {
		i := m.pick(k)
		n.Attributes = slices.Delete(n.Attributes, i, i+1)
	}
}

func (m *mutator) operator() {
	ops := operatorNames()
	n, name := m.node(), ops[m.pick(len(ops))]
	n.OpType, n.Domain = name, ""
	if kind, ok := strings.CutPrefix(name, "com.microsoft."); ok {
		n.OpType, n.Domain = kind, "com.microsoft"
	}
}

func (m *mutator) rewire() {
	n := m.node()
	if k := len(n.Inputs); k > 0 {
		n.Inputs[m.pick(k)] = m.name()
	}
}

func (m *mutator) arity() {
	n := m.node()
	switch k := len(n.Inputs); m.pick(4) {
	case 0:
		n.Inputs = append(n.Inputs, m.name())
	case 1:
		n.Inputs = append(n.Inputs, "")
	case 2:
		n.Inputs = n.Inputs[:max(k-1, 0)]
	case 3:
		n.Outputs = append(n.Outputs, fmt.Sprintf("more%d", len(m.names())))
	}
}

// integer changes an element of an integer initializer.
func (m *mutator) integer() {
	var list []*onnx.Tensor
	for _, t := range m.model.Graph.Initializers {
		if len(t.Ints) > 0 && t.Type == onnx.Int64 {
			list = append(list, t)
		}
	}
	if len(list) > 0 {
		t := list[m.pick(len(list))]
		t.Ints[m.pick(len(t.Ints))] = m.number()
	}
}

func (m *mutator) shape() {
	if list := m.model.Graph.Initializers; len(list) > 0 {
		m.reshape(list[m.pick(len(list))])
	}
}

// reshape gives a tensor other dimensions and the number of elements for them.
func (m *mutator) reshape(t *onnx.Tensor) {
	dims := slices.Clone(t.Dims)
	switch k := len(dims); m.pick(5) {
	case 0:
		dims = append(dims, 1)
	case 1:
		dims = append([]int64{1}, dims...)
	case 2:
		slices.Reverse(dims)
	case 3:
		if k > 0 {
			dims[m.pick(k)] = int64(m.pick(7))
		}
	case 4:
		dims = dims[:max(k-1, 0)]
	}
	n := 1
	for _, d := range dims {
		n *= int(d)
	}
	if n > 1<<12 {
		return
	}
	t.Dims = dims
	switch {
	case t.Type.IsFloat():
		t.Floats = resized(t.Floats, n)
	case t.Type.IsInt():
		t.Ints = resized(t.Ints, n)
	}
}

func resized[T any](v []T, n int) []T {
	if len(v) == 0 {
		return make([]T, n)
	}
	out := make([]T, n)
	for i := range out {
		out[i] = v[i%len(v)]
	}
	return out
}

func (m *mutator) dropNode() {
	g := m.model.Graph
	if k := len(g.Nodes); k > 1 {
		i := m.pick(k)
		n := g.Nodes[i]
		// The nodes that read its result read its input instead.
		for _, other := range g.Nodes {
			for j, name := range other.Inputs {
				if len(n.Inputs) > 0 && slices.Contains(n.Outputs, name) {
					other.Inputs[j] = n.Inputs[0]
				}
			}
		}
		g.Nodes = slices.Delete(g.Nodes, i, i+1)
	}
}

func (m *mutator) opset() { m.model.OpsetImport[0].Version = int64(7 + m.pick(16)) }

func (m *mutator) inputDims() {
	in := m.model.Graph.Inputs[0]
	switch k := m.pick(4); k {
	case 0:
		in.Dims = append(in.Dims, onnx.Dim{Value: 1, HasValue: true})
	case 1:
		in.Dims = in.Dims[:max(len(in.Dims)-1, 1)]
	default:
		if len(in.Dims) > 1 {
			in.Dims[1+m.pick(len(in.Dims)-1)] = onnx.Dim{Value: int64(m.pick(9)), HasValue: true}
		}
	}
}

func (m *mutator) output() { m.model.Graph.Outputs[0].Name = m.name() }

// insert puts a new node between a node and one of its inputs.
func (m *mutator) insert() {
	n := m.node()
	if len(n.Inputs) == 0 {
		return
	}
	i, ops := m.pick(len(n.Inputs)), operatorNames()
	out := fmt.Sprintf("new%d", len(m.names()))
	made := &onnx.Node{Name: out, OpType: ops[m.pick(len(ops))], Inputs: []string{n.Inputs[i]}, Outputs: []string{out}}
	for range m.pick(4) {
		made.Inputs = append(made.Inputs, m.name())
	}
	for range m.pick(3) {
		a := attributePool[m.pick(len(attributePool))]
		a.Ints = slices.Clone(a.Ints)
		made.Attributes = append(made.Attributes, &a)
	}
	n.Inputs[i] = out
	m.model.Graph.Nodes = append(m.model.Graph.Nodes, made)
}

func (m *mutator) batch() {
	d := &m.model.Graph.Inputs[0].Dims[0]
	*d = onnx.Dim{Value: int64(m.pick(6)), HasValue: true}
	if d.Value == 0 {
		*d = onnx.Dim{Param: "n"}
	}
}

// scalarize makes an initializer a scalar of one of the types.
func (m *mutator) scalarize() {
	list := m.model.Graph.Initializers
	if len(list) == 0 {
		return
	}
	t := list[m.pick(len(list))]
	t.Dims, t.Floats, t.Ints = nil, nil, nil
	switch m.pick(4) {
	case 0:
		t.Type, t.Floats = onnx.Double, []float64{0.5}
	case 1:
		t.Type, t.Floats = onnx.Float, []float64{2}
	case 2:
		t.Type, t.Ints = onnx.Int64, []int64{m.number()}
	case 3:
		t.Type, t.Ints = onnx.Bool, []int64{1}
	}
}

// FuzzIntegers reads graphs in which a chain of integer operators, the last of
// them Div or Mod, gives the shape of a Reshape. A graph that is read must
// compute what the evaluator computes, for batches of any size.
func FuzzIntegers(f *testing.F) {
	rng := rand.New(rand.NewPCG(5, 7))
	for range 64 {
		choices := make([]byte, 24)
		for i := range choices {
			choices[i] = byte(rng.Uint32())
		}
		f.Add(choices)
	}
	f.Add([]byte{0, 2, 1, 4, 8, 0, 8, 1, 9, 2, 2, 0, 2}) // (N, 0) divided by N in floating point
	f.Fuzz(func(t *testing.T, choices []byte) {
		m, batch := integerChain(choices)
		data, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		var net *network.Network
		limit := uint64(hostileBytes + 400*len(data))
		if used := allocated(func() { net, err = network.ReadONNX(bytes.NewReader(data), nil) }); used > limit {
			t.Fatalf("reading %d bytes allocated %d", len(data), used)
		}
		if err != nil {
			requireOneLine(t, err)
			return
		}
		for _, rows := range []int{1, 2, 3, 5} {
			if batch > 0 {
				rows = batch
			}
			x := gaussianMatrix(rand.New(rand.NewPCG(3, 4)), rows, chainWidth)
			want := testref.Must(evaluate(m, &tensor{shape: []int{rows, chainWidth}, data: x.RawMatrix().Data}, nil))(t)
			got := testref.Must(net.Forward(t.Context(), x))(t)
			testref.RequireClose(t, got.RawMatrix().Data, want.data, 1e-15, "f")
		}
	})
}

// chainWidth is the number of inputs of an integerChain's model.
const chainWidth = 12

// integerChain builds the graph that the choices stand for, and returns the
// batch size that it declares; 0 is an open one.
func integerChain(choices []byte) (*onnx.Model, int) {
	g, m := newGraph(18, chainWidth), &mutator{bytes: choices}
	batch := []int{0, 0, 4}[m.pick(3)]
	if batch > 0 {
		g.fixed(batch)
	}
	x := g.input()
	// The vectors so far. Small numbers come first, as most shapes have them.
	made := []string{g.op("Shape", in("x")), g.batchVector(), g.ints(2), g.ints(3, 4), g.ints(0), g.ints(-1), g.ints(6), g.ints(math.MinInt64)}
	any := func() string { return made[m.pick(len(made))] }
	one := func() string { return g.op("Slice", in(any(), g.ints(0), g.ints(1))) }
	scalar := func() string { return g.op("Squeeze", in(one(), g.ints(0))) }
	small := func() string { return g.ints(int64(m.pick(7) - 2)) }
	quotient := func(a, b string) string {
		switch m.pick(3) {
		case 0:
			return g.op("Mod", in(a, b))
		case 1:
			return g.op("Mod", in(a, b), intA("fmod", 1))
		}
		return g.op("Div", in(a, b))
	}
	steps := []func() string{
		func() string { return g.op("Gather", in(any(), small())) },
		func() string { return g.op("Slice", in(any(), small(), small(), g.ints(0), small())) },
		func() string { return g.op("Concat", in(any(), any()), intA("axis", 0)) },
		func() string { return g.op("Add", in(any(), any())) },
		func() string { return g.op("Sub", in(any(), any())) },
		func() string { return g.op("Mul", in(any(), any())) },
		func() string { return quotient(any(), any()) },
		func() string { return g.cast(any(), []onnx.DataType{onnx.Int64, onnx.Int32, onnx.Bool}[m.pick(3)]) },
		func() string { // arithmetic in floating point
			kind := []string{"Div", "Mul", "Add", "Sub"}[m.pick(4)]
			return g.cast(g.op(kind, in(g.cast(any(), onnx.Float), g.cast(any(), onnx.Float))), onnx.Int64)
		},
		func() string { return g.op("Range", in(scalar(), scalar(), scalar())) },
		func() string {
			fill := &onnx.Tensor{Dims: []int64{1}, Type: onnx.Int64, Ints: []int64{m.number()}}
			return g.op("ConstantOfShape", in(one()), tensorA("value", fill))
		},
		func() string { return g.op("Expand", in(any(), one())) },
		func() string { return g.ints(m.number()) },
		func() string { return g.op("Reshape", in(any(), small())) },
	}
	for range 6 {
		if len(m.bytes) < 8 {
			break
		}
		made = append(made, steps[m.pick(len(steps))]())
	}
	end := quotient(any(), any())
	if m.pick(2) == 1 {
		end = g.op("Slice", in(end, g.ints(0), g.ints(1)))
	}
	shape := [][]string{{g.batchVector(), end, g.ints(-1)}, {g.batchVector(), g.ints(-1), end}, {g.ints(-1), end}, {end, g.ints(-1)}, {end}}[m.pick(5)]
	return g.output(g.op("Reshape", in(x, g.op("Concat", shape, intA("axis", 0))))), batch
}

// TestIntegerChains checks that enough of the chains of FuzzIntegers are read
// for it to compare something.
func TestIntegerChains(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 7))
	read := 0
	for range 2000 {
		choices := make([]byte, 24)
		for i := range choices {
			choices[i] = byte(rng.Uint32())
		}
		m, _ := integerChain(choices)
		if _, err := load(m); err == nil {
			read++
		}
	}
	require.Greater(t, read, 100)
}
