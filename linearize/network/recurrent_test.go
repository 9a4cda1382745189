package network_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
)

// wideRecurrent returns a layer whose factors take less memory than columns.
func wideRecurrent(kind string, dirs int, attrs ...*onnx.Attribute) (m *onnx.Model, w, r, b string) {
	g := newGraph(17, 2, 10)
	n := recurrentNode{kind: kind, dirs: dirs, hidden: 12, input: 10, outputs: 2, attrs: attrs, x: g.op("Transpose", in("x"), intsA("perm", 1, 0, 2))}
	rows := recurrentGates[kind] * n.hidden
	n.w, n.r, n.b = g.spread(0, 0.3, dirs, rows, 10), g.spread(0, 0.3, dirs, rows, 12), g.spread(0, 0.3, dirs, 2*rows)
	y := g.batchLast(n.add(g)[1], 3)
	flat := g.op("Flatten", in(y))
	return g.output(g.op("Gemm", in(flat, g.spread(0, 0.3, 12*dirs, 3)))), n.w, n.r, n.b
}

// TestRecurrentBlocks checks that the weights of recurrent layers are factored,
// alone and beside frozen ones, and that biases, of which there are few, are columns.
func TestRecurrentBlocks(t *testing.T) {
	for _, dirs := range []int{1, 2} {
		for _, c := range []struct {
			name, kind string
			attrs      []*onnx.Attribute
		}{{"LSTM", "LSTM", nil}, {"GRU", "GRU", nil}, {"GRU-linear", "GRU", []*onnx.Attribute{intA("linear_before_reset", 1)}}, {"RNN", "RNN", nil}} {
			m, w, r, b := wideRecurrent(c.kind, dirs, c.attrs...)
			whole := testref.Must(load(m))(t)
			x := gaussianMatrix(rand.New(rand.NewPCG(1, 2)), 5, 20)
			all := testref.Must(whole.Linearize(t.Context(), x))(t)
			for _, frozen := range [][]string{nil, {w}, {r}, {b}, {w, b}, {r, b}} {
				t.Run(strings.Join(append([]string{c.name, "direction", string(rune('0' + dirs)), "without"}, frozen...), "-"), func(t *testing.T) {
					net := testref.Must(load(m, frozen...))(t)
					for _, p := range net.Describe().Params {
						switch p.Name {
						case w, r:
							require.Equal(t, "Conv", p.Block)
						case b:
							require.Equal(t, "Full", p.Block)
						}
					}
					part := testref.Must(net.Linearize(t.Context(), x))(t)
					requireBatch(t, part, rand.New(rand.NewPCG(3, 4)))
					requireSameColumns(t, part, all, net.Params(), whole.Params())
				})
			}
		}
	}
}

// TestRecurrentBlocksOfJoinedWeights does the same for weights that an export without
// constant folding joins from the gates of other tensors, in another order.
func TestRecurrentBlocksOfJoinedWeights(t *testing.T) {
	orders := map[string][]int64{"LSTM": {0, 3, 1, 2}, "GRU": {1, 0, 2}, "RNN": {0}} // of PyTorch's gates in ONNX
	for kind, order := range orders {
		for _, dirs := range []int{1, 2} {
			for _, linear := range []int64{0, 1} {
				if kind != "GRU" && linear > 0 {
					continue
				}
				t.Run(fmt.Sprint(kind, dirs, linear), func(t *testing.T) {
					g := newGraph(17, 2, 9)
					const hidden = 10
					weights := map[string]bool{}
					join := func(cols int) string {
						var parts []string
						for range dirs {
							w := g.spread(0, 0.3, len(order)*hidden, cols)
							weights[w] = true
							var gates []string
							for _, o := range order {
								gates = append(gates, g.op("Slice", in(w, g.ints(o*hidden), g.ints((o+1)*hidden), g.ints(0))))
							}
							parts = append(parts, g.op("Unsqueeze", in(g.op("Concat", gates, intA("axis", 0)), g.ints(0))))
						}
						return g.op("Concat", parts, intA("axis", 0))
					}
					n := recurrentNode{kind: kind, dirs: dirs, hidden: hidden, input: 9, outputs: 2, x: g.op("Transpose", in("x"), intsA("perm", 1, 0, 2)), w: join(9), r: join(hidden)}
					if linear > 0 {
						n.attrs = []*onnx.Attribute{intA("linear_before_reset", 1)}
					}
					flat := g.op("Flatten", in(g.batchLast(n.add(g)[1], 3)))
					net := mustLoad(t, g.output(g.op("Gemm", in(flat, g.spread(0, 0.3, hidden*dirs, 3)))))
					for _, p := range net.Describe().Params {
						if weights[p.Name] {
							require.Equal(t, "Conv", p.Block)
						}
					}
					b := testref.Must(net.Linearize(t.Context(), inputs(5, 18)))(t)
					requireBatch(t, b, rand.New(rand.NewPCG(3, 4)))
					requireDifferences(t, net)
				})
			}
		}
	}
}

// TestRecurrentConforms holds factored recurrent layers to the conformance suite.
func TestRecurrentConforms(t *testing.T) {
	for kind := range recurrentGates {
		m, _, _, _ := wideRecurrent(kind, 2)
		conform(t, mustLoad(t, m), inputs(5, 20))
	}
}

// requireSameColumns checks that the columns of J for some parameters are those of
// a J with more.
func requireSameColumns(t *testing.T, part, all *linearize.Batch, some, params []linearize.Param) {
	t.Helper()
	var got, want mat.Dense
	part.JacobianTo(&got)
	all.JacobianTo(&want)
	rows, _ := got.Dims()
	for _, p := range some {
		for _, q := range params {
			if q.Name != p.Name {
				continue
			}
			for i := range rows {
				require.InDeltaSlice(t, want.RawRowView(i)[q.Offset:q.Offset+q.Len()], got.RawRowView(i)[p.Offset:p.Offset+p.Len()], 1e-13, p.Name)
			}
		}
	}
}

// TestRecurrentRefusals checks that wrong and huge recurrent layers are refused in
// one line.
func TestRecurrentRefusals(t *testing.T) {
	shapes := func(kind string, w, r []int, attrs ...*onnx.Attribute) func(g *graph) string {
		return func(g *graph) string {
			return g.op(kind, in(g.timeFirst(), g.param(w...), g.param(r...)), attrs...)
		}
	}
	// with adds inputs from the fourth on to a layer of two hidden units.
	with := func(kind string, attrs []*onnx.Attribute, inputs func(g *graph) []string) func(g *graph) string {
		return func(g *graph) string {
			rows := 2 * recurrentGates[kind]
			return g.op(kind, append(in(g.timeFirst(), g.param(1, rows, 2), g.param(1, rows, 2)), inputs(g)...), attrs...)
		}
	}
	attribute := func(a ...*onnx.Attribute) func(g *graph) string {
		return with("LSTM", a, func(*graph) []string { return nil })
	}
	huge := []int{1 << 12, 2}
	for _, c := range []struct {
		name, want string
		dims       []int
		build      func(g *graph) string
		batch      int
	}{
		{"two dimensions", "not three-dimensional", nil, func(g *graph) string {
			return g.op("GRU", in(g.op("Flatten", in(g.input())), g.param(1, 6, 2), g.param(1, 6, 2)))
		}, 0},
		{"batch at the wrong axis", "axis 0, where layout 1 has it", nil, shapes("LSTM", []int{1, 8, 2}, []int{1, 8, 2}, intA("layout", 1)), 0},
		{"batch first without layout", "axis 1, where layout 0 has it", nil, func(g *graph) string {
			return g.op("RNN", in(g.input(), g.param(1, 2, 2), g.param(1, 2, 2)))
		}, 0},
		{"input weights", "input weights of shape [1 7 2] are not 1×8×2", nil, shapes("LSTM", []int{1, 7, 2}, []int{1, 8, 2}), 0},
		{"recurrent weights", "recurrent weights of shape [1 8 3] are not 1×12×3", nil, shapes("LSTM", []int{1, 8, 2}, []int{1, 8, 3}), 0},
		{"recurrent weights of two dimensions", "not three-dimensional", nil, shapes("LSTM", []int{1, 8, 2}, []int{8, 2}), 0},
		{"one direction of two", "are not 2×8×2", nil, shapes("LSTM", []int{1, 8, 2}, []int{1, 8, 2}, textA("direction", "bidirectional")), 0},
		{"hidden size", "hidden_size is 3", nil, shapes("LSTM", []int{1, 8, 2}, []int{1, 8, 2}, intA("hidden_size", 3)), 0},
		{"weights of the examples", "input weights depend on the input", nil, func(g *graph) string {
			return g.op("RNN", in(g.timeFirst(), g.op("Reshape", in(g.input(), g.ints(-1, 3, 2))), g.param(1, 3, 3)))
		}, 0},
		{"biases", "biases of shape [1 8] are not 1×16", nil, with("LSTM", nil, func(g *graph) []string { return in(g.param(1, 8)) }), 0},
		{"peepholes", "peephole weights of shape [1 4] are not 1×6", nil, with("LSTM", nil, func(g *graph) []string { return in("", "", "", "", g.param(1, 4)) }), 0},
		{"initial state", "an initial state of shape [1 1 3] is not [1 1 2]", nil, with("GRU", nil, func(g *graph) []string { return in("", "", g.param(1, 1, 3)) }), 0},
		{"initial states of the examples", "may differ between the 4 examples", nil, with("GRU", nil, func(g *graph) []string { return in("", "", g.param(1, 4, 2)) }), 4},
		{"different lengths", "different lengths", nil, with("GRU", nil, func(g *graph) []string { return in("", g.ints(2, 3)) }), 2},
		{"a length past the end", "sequence_lens has 2 lengths that are not in the 3 positions", nil, with("GRU", nil, func(g *graph) []string { return in("", g.ints(4, 4)) }), 2},
		{"no length", "sequence_lens has 2 lengths", nil, with("GRU", nil, func(g *graph) []string { return in("", g.ints(0, 0)) }), 2},
		{"lengths from the input", "sequence_lens depends on the input", nil, with("GRU", nil, func(g *graph) []string { return in("", g.input()) }), 0},
		{"direction", `direction is "sideways"`, nil, attribute(textA("direction", "sideways")), 0},
		{"activation", `activation "Gelu" is none`, nil, attribute(textsA("activations", "Gelu", "Tanh", "Tanh")), 0},
		{"number of activations", "names 2 activations, 3 are expected", nil, attribute(textsA("activations", "Tanh", "Tanh")), 0},
		{"activation without its number", "alpha or beta is not given", nil, attribute(textsA("activations", "Sigmoid", "ScaledTanh", "Tanh")), 0},
		{"numbers without activations", "more activation_alpha", nil, attribute(floatsA("activation_alpha", 1)), 0},
		{"clip", "clip is -1", nil, attribute(floatA("clip", -1)), 0},
		{"type of an attribute", "activations is of type", nil, attribute(textA("activations", "Tanh")), 0},
		{"output that an LSTM alone has", "its output 2", nil, func(g *graph) string {
			return g.op("Add", in(g.many("GRU", 3, in(g.timeFirst(), g.param(1, 6, 2), g.param(1, 6, 2)))[2], g.param(2)))
		}, 0},
		{"giant constant weights", "", huge, func(g *graph) string {
			w := g.op("ConstantOfShape", in(g.ints(1, 1<<12, 2)))
			return g.op("RNN", in(g.timeFirst(), w, g.op("ConstantOfShape", in(g.ints(1, 1<<12, 1<<12)))))
		}, 0},
		{"giant recurrence", "", huge, func(g *graph) string {
			w := g.op("Expand", in(g.param(1, 1, 1), g.ints(1, 1<<12, 2)))
			return g.op("RNN", in(g.timeFirst(), w, g.op("Expand", in(g.param(1, 1, 1), g.ints(1, 1<<12, 1<<12)))))
		}, 0},
		{"giant recurrence of parameters", "", nil, func(g *graph) string {
			x := g.op("Expand", in(g.param(1, 1, 1), g.ints(1<<12, 1, 1<<8)))
			w := g.op("Expand", in(g.param(1, 1, 1), g.ints(1, 1<<10, 1<<8)))
			return g.op("Add", in(g.input(), g.op("ReduceSum", in(g.op("LSTM", in(x, w, g.op("Expand", in(g.param(1, 1, 1), g.ints(1, 1<<10, 1<<8)))))))))
		}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.dims == nil {
				c.dims = []int{3, 2}
			}
			data, err := badCase{opset: 14, dims: c.dims, build: c.build, batch: c.batch}.model().Encode()
			require.NoError(t, err)
			used := allocated(func() { _, err = network.ReadONNX(bytes.NewReader(data), nil) })
			require.ErrorContains(t, err, c.want)
			requireOneLine(t, err)
			require.Less(t, used, uint64(hostileBytes))
		})
	}
}

// BenchmarkRecurrent linearizes classifiers of sequences of 32 positions.
func BenchmarkRecurrent(b *testing.B) {
	for _, kind := range []string{"LSTM", "GRU", "RNN"} {
		for _, dirs := range []int{1, 2} {
			g := newGraph(17, 32, 32)
			n := recurrentNode{kind: kind, dirs: dirs, hidden: 64, input: 32, outputs: 2, x: g.op("Transpose", in("x"), intsA("perm", 1, 0, 2)), attrs: []*onnx.Attribute{intA("linear_before_reset", 1)}}
			flat := g.op("Flatten", in(g.batchLast(n.add(g)[1], 3)))
			net := testref.Must(load(g.output(g.op("Gemm", in(flat, g.param(64*dirs, 2))))))(b)
			d, _, p := net.Dims()
			x := gaussianMatrix(rand.New(rand.NewPCG(1, 2)), 200, d)
			b.Run(fmt.Sprintf("%s/directions=%d/N=200/P=%d", kind, dirs, p), func(b *testing.B) {
				b.Run("forward", func(b *testing.B) {
					for b.Loop() {
						if _, err := net.Forward(b.Context(), x); err != nil {
							b.Fatal(err)
						}
					}
				})
				b.Run("linearize", func(b *testing.B) {
					for b.Loop() {
						if _, err := net.Linearize(b.Context(), x); err != nil {
							b.Fatal(err)
						}
					}
				})
			})
		}
	}
}

// TestRecurrentBeforeItRuns reads a graph that asks for the result of a recurrent
// layer on parameters alone while it is compiled.
func TestRecurrentBeforeItRuns(t *testing.T) {
	for kind, gates := range recurrentGates {
		g := newGraph(17, 2)
		y := g.op(kind, in(g.param(3, 1, 2), g.param(1, 2*gates, 2), g.param(1, 2*gates, 2)))
		last := g.op("Reshape", in(g.op("Slice", in(y, g.ints(2), g.ints(3))), g.ints(2)))
		mask := g.op("Cast", in(g.op("Greater", in(last, g.scalar(0)))), intA("to", int64(onnx.Double)))
		_, err := load(g.output(g.op("Mul", in(g.input(), mask))))
		if err != nil { // the mask may be all zeros
			requireOneLine(t, err)
		}
	}
}
