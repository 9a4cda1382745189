package weightspace_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/ntk"
)

// newRecurrentProblem draws sequences of three classes for a recurrent layer
// with random weights, so wide that these are factored, and a dense layer on its
// last hidden states.
func newRecurrentProblem(t *testing.T, kind string, gates, dirs int, attrs ...*onnx.Attribute) *spaceProblem {
	t.Helper()
	const steps, in, hidden, classes, rows = 2, 8, 10, 3, 24
	rng := rand.New(rand.NewPCG(uint64(gates), uint64(dirs)))
	direction := "forward"
	if dirs == 2 {
		direction = "bidirectional"
	}
	weight := func(name string, dims ...int64) *onnx.Tensor {
		n := int64(1)
		for _, d := range dims {
			n *= d
		}
		w := &onnx.Tensor{Name: name, Type: onnx.Double, Dims: dims, Floats: make([]float64, n)}
		for i := range w.Floats {
			w.Floats[i] = 0.4 * rng.NormFloat64()
		}
		return w
	}
	d, g := int64(dirs), int64(gates)
	size := func(n int64) onnx.Dim { return onnx.Dim{Value: n, HasValue: true} }
	m := &onnx.Model{IRVersion: 8, OpsetImport: []onnx.Opset{{Version: 17}}, Graph: &onnx.Graph{
		Inputs:  []*onnx.ValueInfo{{Name: "x", Type: onnx.Double, HasShape: true, Dims: []onnx.Dim{{Param: "n"}, size(steps), size(in)}}},
		Outputs: []*onnx.ValueInfo{{Name: "f", Type: onnx.Double}},
		Initializers: []*onnx.Tensor{weight("w", d, g*hidden, in), weight("r", d, g*hidden, hidden), weight("b", d, 2*g*hidden),
			weight("dense.weight", d*hidden, classes), weight("dense.bias", classes)},
		Nodes: []*onnx.Node{
			{OpType: kind, Inputs: []string{"x", "w", "r", "b"}, Outputs: []string{"", "h"}, Attributes: append(attrs,
				&onnx.Attribute{Name: "layout", Type: onnx.AttrInt, I: 1}, &onnx.Attribute{Name: "direction", Type: onnx.AttrString, S: []byte(direction)})},
			{OpType: "Flatten", Inputs: []string{"h"}, Outputs: []string{"flat"}},
			{OpType: "Gemm", Inputs: []string{"flat", "dense.weight", "dense.bias"}, Outputs: []string{"f"}},
		},
	}}
	data := testref.Must(m.Encode())(t)
	net := testref.Must(network.ReadONNX(bytes.NewReader(data), nil))(t)
	q := &spaceProblem{name: kind, lik: glm.Categorical{}, theta: net.Theta()}
	sequences := func(n int) *linearize.Batch {
		x := mat.NewDense(n, steps*in, nil)
		x.Apply(func(_, _ int, _ float64) float64 { return rng.NormFloat64() }, x)
		return testref.Must(net.Linearize(t.Context(), x))(t)
	}
	q.train, q.test = sequences(rows), sequences(9)
	mean, variance := make([]float64, len(q.theta)), make([]float64, len(q.theta))
	for i := range mean {
		mean[i], variance[i] = 0.1*rng.NormFloat64(), 0.1*math.Exp(0.5*rng.NormFloat64())
	}
	q.prior = testref.Must(ntk.NewDiagonal(variance, mean))(t)
	q.kernel = ntk.New(q.prior, q.theta)
	q.y = randomTargets(rng, q.lik, rows, classes)
	return q
}

// Classifiers of sequences, whose blocks have two weights at one node and one
// weight matrix for each direction or gate.
func TestRecurrentWeightSpaceIsFunctionSpace(t *testing.T) {
	linear := &onnx.Attribute{Name: "linear_before_reset", Type: onnx.AttrInt, I: 1}
	for _, q := range []*spaceProblem{
		newRecurrentProblem(t, "LSTM", 4, 1), newRecurrentProblem(t, "LSTM", 4, 2), newRecurrentProblem(t, "GRU", 3, 2),
		newRecurrentProblem(t, "GRU", 3, 1, linear), newRecurrentProblem(t, "RNN", 1, 2),
	} {
		factored := 0
		for _, b := range q.train.Blocks {
			if _, ok := b.(*linearize.Conv); ok {
				factored++
			}
		}
		require.Equal(t, 2, factored, q.name)
		c, err := weightspace.Validate(t.Context(), q.exact(t, gp.LinearGaussian), q.fit(t, linearGaussian), q.test, spaceTol)
		require.NoError(t, err)
		requireRows(t, c, "mean", "covariance", "log det", "log evidence at θ* (E7)", "log evidence, linear-Gaussian (E8)")
		requireSameJoint(t, q.fit(t, linearGaussian), q.exact(t, gp.LinearGaussian), q.test)
		c = testref.Must(weightspace.Validate(t.Context(), q.exactRefit(t), q.refit(t), q.test, spaceTol))(t)
		requireRows(t, c, "refit mean", "refit covariance", "refit log det", "refit log evidence (E9)")
	}
}
