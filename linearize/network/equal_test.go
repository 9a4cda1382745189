package network_test

import (
	"bytes"
	"math/rand/v2"
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

// equalNet is two convolutions, a normalization and two dense layers, whose biases, shift and mean are zero. share gives
// the name by which the next of them is read.
func equalNet(share func(g *graph) string) *onnx.Model {
	g := newGraph(13, 2, 5, 5)
	conv := func(x string, in_ int) string {
		w := g.spread(0, .5, 3, in_, 2, 2)
		return g.op("Tanh", in(g.op("Conv", in(x, w, share(g)))))
	}
	h := conv(conv(g.input(), 2), 3)
	h = g.op("BatchNormalization", in(h, g.of([]float64{1, 1.5, .5}, 3), share(g), share(g), g.of([]float64{1, 2, 3}, 3)))
	h = g.op("Tanh", in(g.op("Gemm", in(g.op("Flatten", in(h)), g.spread(0, .5, 27, 3), share(g)))))
	return g.output(g.op("Add", in(g.op("MatMul", in(h, g.spread(0, .5, 3, 3))), share(g))))
}

// shift is the name of the shift of the inputs.
func shift(m *onnx.Model) []string { return m.Graph.Nodes[0].Inputs[1:] }

// TestEqualTensors checks that tensors of equal numbers, which an exporter stores once and hands on by Identity nodes,
// are parameters of their own: f and J are those of a file that stores each. Tied ones have the sum of their columns,
// and the weights beside a tied bias are no columns of a Full block for it.
func TestEqualTensors(t *testing.T) {
	// distinct stores each, with names of nodes as many results of Identity nodes leave them.
	distinct := func(names int) *network.Network {
		first := true
		return mustLoad(t, equalNet(func(g *graph) string {
			if !first {
				g.names += names - 1
			}
			first = false
			return g.of(make([]float64, 3), 3)
		}))
	}
	apart := distinct(2)
	first := ""
	handed := func(chain bool) *onnx.Model {
		first = ""
		return equalNet(func(g *graph) string {
			if first == "" {
				first = g.of(make([]float64, 3), 3)
				return first
			}
			name := g.op("Identity", in(first))
			if chain {
				name = g.op("Identity", in(name))
			}
			return name
		})
	}
	rng := rand.New(rand.NewPCG(1, 2))
	x := inputsOf(apart, rng, 4)
	jacobian := func(n *network.Network) *mat.Dense {
		var j mat.Dense
		testref.Must(n.Linearize(t.Context(), x))(t).JacobianTo(&j)
		return &j
	}
	by := func(n *network.Network) map[string][]float64 { // columns of J by the node that reads them
		j, out := jacobian(n), map[string][]float64{}
		for _, d := range n.Describe().Tensors {
			for _, p := range n.Params() {
				if p.Name == d.Name {
					reason, _, _ := strings.Cut(d.Reason, ", ")
					rows, _ := j.Dims()
					out[reason] = append(out[reason], mat.DenseCopyOf(j.Slice(0, rows, p.Offset, p.Offset+p.Len())).RawMatrix().Data...)
				}
			}
		}
		return out
	}
	for _, chain := range []bool{false, true} {
		m := handed(chain)
		own := mustLoad(t, m)
		_, _, p := own.Dims()
		_, _, wantP := apart.Dims()
		require.Equal(t, wantP, p)
		if chain {
			apart = distinct(4)
		}
		want, got := by(apart), by(own)
		require.Len(t, got, len(want))
		for reason, list := range want {
			require.NotEmpty(t, got[reason], reason)
			testref.RequireClose(t, got[reason], list, 1e-14, reason)
		}
		require.NotContains(t, own.Describe().Fixed, first)
		// Written and read again, they stay apart.
		again := testref.Must(network.ReadONNX(bytes.NewReader(written(t, own)), &network.ReadOptions{Head: head.Keep, Learn: shift(m)}))(t)
		require.Equal(t, own.Params(), again.Params())
		require.Equal(t, own.Fingerprint(), again.Fingerprint())

		tied := testref.Must(readModel(m, &network.ReadOptions{Head: head.Keep, Learn: shift(m), Tie: in(first)}))(t)
		_, _, p = tied.Dims()
		require.Equal(t, wantP-3*4, p) // of five parameters one is left, and the mean is none
		requireDifferences(t, tied)
		again = testref.Must(network.ReadONNX(bytes.NewReader(written(t, tied)), &network.ReadOptions{Head: head.Keep, Learn: shift(m)}))(t)
		require.Equal(t, tied.Params(), again.Params())
		var full []string
		for _, d := range tied.Describe().Params {
			if d.Block == "Full" && d.Name != first && len(d.Shape) == 4 {
				full = append(full, d.Name)
			}
		}
		var fullApart []string
		for _, d := range apart.Describe().Params {
			if d.Block == "Full" && len(d.Shape) == 4 {
				fullApart = append(fullApart, d.Name)
			}
		}
		require.Len(t, full, len(fullApart)) // by their size alone
		// Some of them are tied by the name of one.
		one := slices.DeleteFunc(own.Params(), func(q linearize.Param) bool { return !strings.HasPrefix(q.Name, "y") })
		require.NotEmpty(t, one)
		part := testref.Must(readModel(m, &network.ReadOptions{Head: head.Keep, Learn: shift(m), Tie: in(one[0].Name)}))(t)
		_, _, p = part.Dims()
		require.Equal(t, wantP-3, p)
		_, err := readModel(m, &network.ReadOptions{Head: head.Keep, Learn: shift(m), Tie: in("nobody")})
		require.ErrorContains(t, err, `cannot tie "nobody": no tensor has that name, and the nearest are`)
	}
}
