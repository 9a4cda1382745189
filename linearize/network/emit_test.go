package network_test

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
)

// traced returns the outputs and the Jacobian, T×C and T·C×P, of the graph that Trace writes, run by this package.
func traced(t *testing.T, n *network.Network, x *mat.Dense) (f, j *mat.Dense, err error) {
	b := &onnx.Builder{}
	d, c, p := n.Dims()
	b.Graph.Inputs = []*onnx.ValueInfo{onnx.Rows("x", onnx.Double, d)}
	tr, err := n.Trace(b, "x")
	if err != nil {
		return nil, nil, err
	}
	b.Output("f", tr.F, onnx.Double, c)
	type piece struct {
		name  string
		spans []linearize.Span
	}
	var pieces []piece
	for i, part := range tr.Parts {
		name := "j" + string(rune('a'+i%26)) + string(rune('a'+i/26))
		value, width := part.J, 0
		for _, s := range part.Spans {
			width += s.Len()
		}
		if value == "" {
			var columns []string
			if part.Weight {
				to := "tcm,tk->tcmk"
				if part.Transposed {
					to = "tcm,tk->tckm"
				}
				columns = append(columns, b.Reshape(b.Einsum(to, part.G, part.A), -1, c, part.In*part.Out))
			}
			if part.Bias {
				columns = append(columns, part.G)
			}
			value = b.Concat(2, columns...)
		}
		// A Jacobian may not depend on the input, as this package wants of an output.
		none := b.Mul(b.Sum("x", 1), b.Double(0))
		b.Output(name, b.Add(value, b.Unsqueeze(none, 1, 2)), onnx.Double, c, width)
		pieces = append(pieces, piece{name, part.Spans})
	}
	data, err := (&onnx.Model{IRVersion: 8, OpsetImport: []onnx.Opset{{Version: 17}}, Graph: &b.Graph}).Encode()
	require.NoError(t, err)
	outputs := map[string]*mat.Dense{}
	for _, o := range b.Graph.Outputs {
		m := testref.Must(network.ReadONNX(bytes.NewReader(data), &network.ReadOptions{Output: o.Name}))(t)
		outputs[o.Name] = testref.Must(m.Forward(t.Context(), x))(t)
	}
	rows, _ := x.Dims()
	for name, got := range testkit.Onnxruntime(t, data, x) {
		nearJacobian(t, outputs[name], mat.NewDense(rows, len(got)/rows, got))
	}
	j = mat.NewDense(rows*c, p, nil)
	for _, piece := range pieces {
		all, at := outputs[piece.name], 0
		width := all.RawMatrix().Cols / c
		for _, s := range piece.spans {
			for i := range rows * c {
				copy(j.RawRowView(i)[s.Offset:s.Offset+s.Len()], all.RawRowView(i / c)[i%c*width+at:])
			}
			at += s.Len()
		}
	}
	return outputs["f"], j, nil
}

// TestTrace compares the graph that Trace writes with Linearize, for the networks that PyTorch exported, by package
// network and by onnxruntime where it is there. doc/export.md says what it refuses.
func TestTrace(t *testing.T) {
	right := 0
	compare := func(name string, data []byte, inputs func(n *network.Network) *mat.Dense) {
		t.Run(name, func(t *testing.T) {
			n, err := network.ReadONNX(bytes.NewReader(data), nil)
			if err != nil {
				t.Skip("it is not read: " + err.Error())
			}
			_, c, p := n.Dims()
			if c*p > 3e5 || c > 40 {
				t.Skip("it is too large")
			}
			x := inputs(n)
			b, err := n.Linearize(t.Context(), x)
			if err != nil {
				t.Skip("it is not linearized: " + err.Error())
			}
			f, j, err := traced(t, n, x)
			if e := (*network.UnsupportedTraceError)(nil); errors.As(err, &e) {
				t.Skip(err.Error())
			}
			require.NoError(t, err)
			rows, _ := j.Dims()
			want := mat.NewDense(rows, p, nil)
			for i := range rows {
				row := make([]float64, rows)
				row[i] = 1
				b.MulTransVecTo(want.RawRowView(i), row)
			}
			nearJacobian(t, b.F, f)
			nearJacobian(t, want, j)
			right++
		})
	}
	for _, e := range corpus(t) {
		if !e.refused() {
			compare(e.name, e.files[e.exports[0].File], func(*network.Network) *mat.Dense {
				x := e.inputs()
				k := min(3, x.RawMatrix().Rows)
				return x.Slice(0, k, 0, x.RawMatrix().Cols).(*mat.Dense)
			})
		}
	}
	paths, err := filepath.Glob("../../testdata/heads/*.onnx")
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(1, 2))
	for _, path := range paths {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		compare("heads/"+filepath.Base(path), data, func(n *network.Network) *mat.Dense {
			d, _, _ := n.Dims()
			x := mat.NewDense(3, d, nil)
			x.Apply(func(int, int, float64) float64 { return rng.NormFloat64() }, x)
			return x
		})
	}
	require.GreaterOrEqual(t, right, 390)
}

func nearJacobian(t *testing.T, want, got *mat.Dense) {
	scale, worst := 0.0, 0.0
	r, _ := want.Dims()
	for i := range r {
		for k, v := range want.RawRowView(i) {
			scale, worst = math.Max(scale, math.Abs(v)), math.Max(worst, math.Abs(v-got.At(i, k)))
		}
	}
	require.LessOrEqual(t, worst, 1e-11*(1+scale))
}
