package network_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/linearize/train"
)

var (
	gaussianMatrix = testkit.RandomMatrix
	convNet        = testkit.ConvNet
	rowsOf         = testkit.RowsOf
	whole          = testkit.Arrays
	collect        = testkit.Collect
)

type zooEntry struct {
	name   string
	in     network.Shape
	layers []network.Layer
}

// zoo holds networks that reach every kind of block.
func zoo() []zooEntry {
	L := func(l ...network.Layer) []network.Layer { return l }
	var all []zooEntry
	for a := network.ReLU; a <= network.SiLU; a++ {
		all = append(all, zooEntry{fmt.Sprintf("activation-%d", a), network.Shape{4}, L(network.Dense{Units: 5}, a, network.Dense{Units: 3})})
	}
	return append(all,
		zooEntry{"mlp-no-bias", network.Shape{3}, L(network.Dense{Units: 6, NoBias: true}, network.Tanh, network.Dense{Units: 2, NoBias: true})},
		zooEntry{"residual-norm", network.Shape{4}, L(network.Dense{Units: 6}, network.Residual{L(network.LayerNorm{}, network.Dense{Units: 6}, network.GELU)}, network.LayerNorm{}, network.Dense{Units: 2})},
		zooEntry{"cnn", network.Shape{2, 7, 6}, L(network.Conv2D{Filters: 4, Kernel: 3, Padding: 1}, network.SiLU, network.MaxPool2D{2}, network.Conv2D{Filters: 6, Kernel: 2, Groups: 2}, network.Tanh, network.Flatten{}, network.Dense{Units: 3})},
		zooEntry{"wide-conv", network.Shape{3, 3, 3}, L(network.Conv2D{Filters: 9, Kernel: 3, Padding: 1, Stride: 2}, network.Tanh, network.AvgPool2D{2}, network.Flatten{}, network.Dense{Units: 2})})
}

func build(t *testing.T, e zooEntry) *network.Network {
	t.Helper()
	return testref.Must(network.Sequential(e.in, e.layers...))(t)
}

// TestJacobianAgainstDifferences checks every column of J against central
// differences of Forward, which have an error of about 1e-7 at a step of 1e-5.
func TestJacobianAgainstDifferences(t *testing.T) {
	for _, e := range zoo() {
		t.Run(e.name, func(t *testing.T) { requireDifferences(t, build(t, e)) })
	}
}

func requireDifferences(t *testing.T, net *network.Network) {
	t.Helper()
	_, c, p := net.Dims()
	x := inputsOf(net, rand.New(rand.NewPCG(1, 2)), 5)
	b := testref.Must(net.Linearize(t.Context(), x))(t)
	var j mat.Dense
	b.JacobianTo(&j)
	const h = 1e-5
	want := mat.NewDense(5*c, p, nil)
	for k := range p {
		up, down := net.Theta(), net.Theta()
		up[k] += h
		down[k] -= h
		fu, fd := forward(t, net, up, x), forward(t, net, down, x)
		for i := range 5 * c {
			want.Set(i, k, (fu[i]-fd[i])/(2*h))
		}
	}
	testref.RequireClose(t, j.RawMatrix().Data, want.RawMatrix().Data, 1e-7, "J")
}

func forward(t *testing.T, net *network.Network, theta []float64, x *mat.Dense) []float64 {
	t.Helper()
	n := testref.Must(net.WithTheta(theta))(t)
	f := testref.Must(n.Forward(t.Context(), x))(t)
	return f.RawMatrix().Data
}

// TestE1LinearizedOutputs checks f_lin = f + J(θ−θ*): its error falls with
// the square of the step.
func TestE1LinearizedOutputs(t *testing.T) {
	net := build(t, zooEntry{"", network.Shape{3}, []network.Layer{network.Dense{Units: 6}, network.Tanh, network.Dense{Units: 2}}})
	_, _, p := net.Dims()
	rng := rand.New(rand.NewPCG(3, 4))
	x, dir := gaussianMatrix(rng, 4, 3), gaussianMatrix(rng, 1, p).RawMatrix().Data
	b := testref.Must(net.Linearize(t.Context(), x))(t)
	gap := func(h float64) (g float64) {
		theta, v := net.Theta(), make([]float64, p)
		for i, d := range dir {
			v[i] = h * d
			theta[i] += v[i]
		}
		jv := make([]float64, 8)
		b.MulVecTo(jv, v)
		for i, f := range forward(t, net, theta, x) {
			g = max(g, math.Abs(f-b.F.RawMatrix().Data[i]-jv[i]))
		}
		return g
	}
	require.InDelta(t, 4, gap(1e-3)/gap(5e-4), 0.1)
}

// TestBlocks checks that products, views and tiles of a Batch agree with its
// dense Jacobian, and that a vector-Jacobian product needs no Batch.
func TestBlocks(t *testing.T) {
	for _, e := range zoo() {
		t.Run(e.name, func(t *testing.T) {
			net := build(t, e)
			d, c, p := net.Dims()
			const n = 6
			rng := rand.New(rand.NewPCG(5, 6))
			x := gaussianMatrix(rng, n, d)
			b := testref.Must(net.Linearize(t.Context(), x))(t)
			requireBatch(t, b, rng)
			u, got := gaussianMatrix(rng, n, c), make([]float64, p)
			require.NoError(t, net.VJP(t.Context(), got, x, u))
			want := make([]float64, p)
			b.MulTransVecTo(want, u.RawMatrix().Data)
			testref.RequireClose(t, got, want, 1e-13, "Jᵀu")
		})
	}
}

func requireBatch(t *testing.T, b *linearize.Batch, rng *rand.Rand) {
	t.Helper()
	var j mat.Dense
	b.JacobianTo(&j)
	rows, p := j.Dims()
	v, u := gaussianMatrix(rng, p, 1), gaussianMatrix(rng, rows, 1)
	var jv, ju mat.Dense
	jv.Mul(&j, v)
	ju.Mul(j.T(), u)
	got := make([]float64, rows)
	b.MulVecTo(got, v.RawMatrix().Data)
	testref.RequireClose(t, got, jv.RawMatrix().Data, 1e-13, "J v")
	got = make([]float64, p)
	b.MulTransVecTo(got, u.RawMatrix().Data)
	testref.RequireClose(t, got, ju.RawMatrix().Data, 1e-13, "Jᵀ u")
	covered := make([]bool, p)
	for _, k := range b.Blocks {
		for _, s := range k.Spans() {
			for i := range s.Len() {
				require.False(t, covered[s.Offset+i], "parameter %d in two blocks", s.Offset+i)
				covered[s.Offset+i] = true
			}
		}
	}
	require.NotContains(t, covered, false)
	c := b.Outputs()
	var part mat.Dense
	b.Slice(1, 4).JacobianTo(&part)
	require.Equal(t, mat.DenseCopyOf(j.Slice(c, 4*c, 0, p)), &part)
	for out := range c {
		var one mat.Dense
		b.Output(out).JacobianTo(&one)
		for n := range b.Len() {
			require.Equal(t, j.RawRowView(n*c+out), one.RawRowView(n))
		}
		require.Equal(t, b.F.At(2, out), b.Slice(2, 5).Output(out).F.At(0, 0))
	}
}

// TestWriteONNX checks that a network survives a round trip bit by bit.
func TestWriteONNX(t *testing.T) {
	for _, e := range zoo() {
		net := build(t, e).WithMetadata(map[string]string{"likelihood": "gaussian", "a": "b"})
		back := roundTrip(t, net)
		require.Equal(t, net.Theta(), back.Theta())
		require.Equal(t, net.Params(), back.Params())
		require.Equal(t, net.Metadata(), back.Metadata())
		d, _, _ := net.Dims()
		x := gaussianMatrix(rand.New(rand.NewPCG(7, 8)), 3, d)
		require.Equal(t, forward(t, net, net.Theta(), x), forward(t, back, back.Theta(), x))
	}
}

// roundTrip writes a network and reads it with the same parameters.
func roundTrip(t *testing.T, net *network.Network) *network.Network {
	t.Helper()
	var buf bytes.Buffer
	require.NoError(t, net.WriteONNX(&buf))
	var learnt []string
	for _, p := range net.Params() {
		learnt = append(learnt, p.Name)
	}
	return testref.Must(network.ReadONNX(&buf, &network.ReadOptions{Learn: learnt}))(t)
}

// TestWriteKeepsDigits checks that a float32 file whose parameters were
// changed to numbers float32 cannot hold is written in float64.
func TestWriteKeepsDigits(t *testing.T) {
	for _, name := range []string{"exports/mlp-nobias-opset17", "exports/residual-layernorm-gelu-opset17", "exports/convtranspose-decoder-opset17"} {
		net := read(t, testref.Open(t, name))
		require.Equal(t, net.Theta(), roundTrip(t, net).Theta())
		theta := net.Theta()
		theta[0] = math.Pi
		moved := testref.Must(net.WithTheta(theta))(t)
		require.Equal(t, theta, roundTrip(t, moved).Theta())
	}
}

// TestProcessorsDoNotMatter checks that everything is bit-identical for any
// GOMAXPROCS.
func TestProcessorsDoNotMatter(t *testing.T) {
	net := build(t, zoo()[10])
	d, c, p := net.Dims()
	rng := rand.New(rand.NewPCG(9, 10))
	x, u := gaussianMatrix(rng, 700, d), gaussianMatrix(rng, 700, c)
	run := func(procs int) (*mat.Dense, []float64) {
		testref.Procs(t, procs)
		b := testref.Must(net.Linearize(t.Context(), x))(t)
		var j mat.Dense
		b.JacobianTo(&j)
		g := make([]float64, p)
		require.NoError(t, net.VJP(t.Context(), g, x, u))
		return &j, g
	}
	j1, g1 := run(1)
	for _, procs := range []int{2, 5} {
		j, g := run(procs)
		require.Equal(t, j1, j)
		require.Equal(t, g1, g)
	}
}

// squares is −½‖y−f‖².
type squares struct{}

func (squares) Expand(residual, _, _, y, f []float64) float64 {
	s := 0.0
	for i := range f {
		residual[i] = y[i] - f[i]
		s -= 0.5 * residual[i] * residual[i]
	}
	return s
}

// TestTrainFindsMode trains a small network to a stationary point and checks
// the reported objective and gradient against a Batch.
func TestTrainFindsMode(t *testing.T) {
	net := build(t, zooEntry{"", network.Shape{1}, []network.Layer{network.Dense{Units: 8}, network.Tanh, network.Dense{Units: 1}}})
	_, _, p := net.Dims()
	x, y := mat.NewDense(40, 1, nil), mat.NewDense(40, 1, nil)
	for i := range 40 {
		v := -3 + 6*float64(i)/39
		x.Set(i, 0, v)
		y.Set(i, 0, math.Sin(v))
	}
	precision := make([]float64, p)
	for i := range precision {
		precision[i] = 0.01 + 0.001*float64(i)
	}
	var stages []string
	trained, res, err := train.MAP(t.Context(), net, x, y, squares{}, &train.Options{Precision: precision, Epochs: 50, Batch: 16, LBFGS: 2000, Tolerance: 1e-8,
		Progress: func(stage string, _, _ int) { stages = append(stages, stage) }})
	require.NoError(t, err)
	require.Contains(t, stages, "adam")
	require.Contains(t, stages, "l-bfgs")
	require.Less(t, res.GradientNorm, 1e-5)
	b := testref.Must(trained.Linearize(t.Context(), x))(t)
	r, grad, theta := make([]float64, 40), make([]float64, p), trained.Theta()
	objective := 0.0
	for i := range r {
		r[i] = y.At(i, 0) - b.F.At(i, 0)
		objective += 0.5 * r[i] * r[i]
	}
	b.MulTransVecTo(grad, r)
	norm := 0.0
	for i := range grad {
		objective += 0.5 * precision[i] * theta[i] * theta[i]
		norm += math.Pow(grad[i]-precision[i]*theta[i], 2)
	}
	require.InDelta(t, objective, res.Objective, 1e-12)
	require.InDelta(t, math.Sqrt(norm), res.GradientNorm, 1e-9)
	require.Less(t, -res.LogLik, 0.05)
}

// TestTrainStops checks that a cancelled context ends training at once.
func TestTrainStops(t *testing.T) {
	net := build(t, zoo()[0])
	ctx, cancel := context.WithCancel(t.Context())
	rng := rand.New(rand.NewPCG(1, 1))
	for _, stage := range []string{"adam", "l-bfgs"} {
		ctx, cancel := context.WithCancel(ctx)
		_, _, err := train.MAP(ctx, net, gaussianMatrix(rng, 50, 4), gaussianMatrix(rng, 50, 3), squares{}, &train.Options{Epochs: 3,
			Progress: func(at string, _, _ int) {
				if at == stage {
					cancel()
				}
			}})
		require.ErrorIs(t, err, context.Canceled)
	}
	cancel()
}

// TestBadNumbers checks that errors say where a NaN is.
func TestBadNumbers(t *testing.T) {
	net := build(t, zoo()[0])
	x := mat.NewDense(3, 4, nil)
	x.Set(1, 2, math.NaN())
	_, err := net.Linearize(t.Context(), x)
	require.ErrorContains(t, err, "row 1")
	require.ErrorContains(t, err, "column 2")
	require.ErrorContains(t, testref.Err(net.Forward(t.Context(), mat.NewDense(1, 5, nil))), "5 columns")
	theta := net.Theta()
	theta[7] = math.Inf(1)
	require.ErrorContains(t, testref.Err(net.WithTheta(theta)), "parameter 7")
	big := net.Theta()
	for i := range big {
		big[i] = 1e100
	}
	huge := testref.Must(net.WithTheta(big))(t)
	x.Set(1, 2, 1e300)
	require.ErrorContains(t, testref.Err(huge.Forward(t.Context(), x)), "input row 1")
	_, c, p := net.Dims()
	err = huge.VJP(t.Context(), make([]float64, p), x, mat.NewDense(3, c, nil))
	require.ErrorContains(t, err, "input row 1")
	require.Equal(t, 1, strings.Count(err.Error(), "network: "), err.Error())
}

// TestWriteFails checks that an error of the writer is passed on and names the
// package.
func TestWriteFails(t *testing.T) {
	full := errors.New("disk full")
	err := build(t, zoo()[0]).WriteONNX(failingWriter{full})
	require.ErrorIs(t, err, full)
	require.True(t, strings.HasPrefix(err.Error(), "network: "), err.Error())
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

// TestDerivativeThatDoesNotExist checks that an infinite derivative is
// reported, with its row: the network takes the root of x·w.
func TestDerivativeThatDoesNotExist(t *testing.T) {
	m := &onnx.Model{IRVersion: 8, OpsetImport: []onnx.Opset{{Version: 17}}, Graph: &onnx.Graph{
		Inputs:       []*onnx.ValueInfo{{Name: "x", Type: onnx.Double, HasShape: true, Dims: []onnx.Dim{{Param: "n"}, {Value: 1, HasValue: true}}}},
		Outputs:      []*onnx.ValueInfo{{Name: "f", Type: onnx.Double}},
		Initializers: []*onnx.Tensor{{Name: "w", Dims: []int64{1, 1}, Type: onnx.Double, Floats: []float64{1}}},
		Nodes: []*onnx.Node{{OpType: "MatMul", Inputs: []string{"x", "w"}, Outputs: []string{"z"}},
			{OpType: "Sqrt", Inputs: []string{"z"}, Outputs: []string{"f"}}},
	}}
	data := testref.Must(m.Encode())(t)
	net := testref.Must(network.ReadONNX(bytes.NewReader(data), nil))(t)
	_, err := net.Linearize(t.Context(), mat.NewDense(2, 1, []float64{4, 0}))
	require.ErrorContains(t, err, "input row 1")
	require.ErrorContains(t, err, "w is")
	_, err = net.LinearizeCombined(t.Context(), mat.NewDense(2, 1, []float64{4, 0}), mat.NewDense(4, 1, []float64{1, 2, 1, 2}))
	require.ErrorContains(t, err, "sum of outputs 0 of input row 1")
	require.NoError(t, testref.Err(net.Linearize(t.Context(), mat.NewDense(1, 1, []float64{4}))))
}

// requireSame checks that outputs and Jacobians of two batches are equal to the last bit.
func requireSame(t *testing.T, got, want *linearize.Batch) {
	t.Helper()
	require.True(t, mat.Equal(want.F, got.F))
	var a, b mat.Dense
	got.JacobianTo(&a)
	want.JacobianTo(&b)
	require.True(t, mat.Equal(&a, &b))
}
