package network_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/linearize"
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
			whole, err := load(m)
			require.NoError(t, err)
			x := gaussianMatrix(rand.New(rand.NewPCG(1, 2)), 5, 20)
			all, err := whole.Linearize(t.Context(), x)
			require.NoError(t, err)
			for _, frozen := range [][]string{nil, {w}, {r}, {b}, {w, b}, {r, b}} {
				t.Run(strings.Join(append([]string{c.name, "direction", string(rune('0' + dirs)), "without"}, frozen...), "-"), func(t *testing.T) {
					net, err := load(m, frozen...)
					require.NoError(t, err)
					for _, p := range net.Describe().Params {
						switch p.Name {
						case w, r:
							require.Equal(t, "Conv", p.Block)
						case b:
							require.Equal(t, "Full", p.Block)
						}
					}
					part, err := net.Linearize(t.Context(), x)
					require.NoError(t, err)
					requireBatch(t, part, rand.New(rand.NewPCG(3, 4)))
					requireSameColumns(t, part, all, net.Params(), whole.Params())
				})
			}
		}
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
