package network_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize/network"
)

// An operatorCase is a small graph around one operator.
type operatorCase struct {
	name  string
	opset int64
	dims  []int // of one input
	build func(g *graph) string
	batch int // declared batch size; 0 is open
	// straight says that derivatives pass straight through jumps, where differences
	// are no check.
	straight bool
	input    onnx.DataType // type of the input; 0 is float64
}

func (c operatorCase) model() *onnx.Model {
	g := newGraph(c.opset, c.dims...)
	if c.batch > 0 {
		g.fixed(c.batch)
	}
	if c.input != 0 {
		g.model.Graph.Inputs[0].Type = c.input
	}
	return g.output(c.build(g))
}

func operatorCases() []operatorCase {
	return slices.Concat(elementwiseCases(), broadcastCases(), productCases(), convolutionCases(), poolCases(), normCases(), shapeCases(), integerCases(), sharingCases(), resizeCases(),
		numericCases(),
		recurrentCases(),
		maskCases(), indexCases(), tokenShapeCases(),
		tokenCases(),
		bodyCases(), loopCases(), fusedCases(),
	)
}

// TestOperatorsCovered checks that every operator has a case.
func TestOperatorsCovered(t *testing.T) {
	used := map[string]bool{}
	for _, c := range operatorCases() {
		m := c.model()
		for _, n := range m.Graph.Nodes {
			if functionOf(m.Functions, n) == nil {
				used[operatorName(n)] = true
			}
		}
	}
	for _, name := range operatorNames() {
		require.True(t, used[name], "operator %s has no case", name)
	}
	require.Len(t, used, len(operatorNames()))
}

// TestOperators runs every case through four checks: outputs against an
// evaluator that works on whole tensors, also at other parameters; rows one
// by one against all at once; J against central differences; and the parts of
// the Batch against J.
func TestOperators(t *testing.T) {
	for _, c := range operatorCases() {
		t.Run(c.name, func(t *testing.T) {
			m := c.model()
			net := mustLoad(t, m)
			rows := 5
			if c.batch > 0 {
				rows = c.batch
			}
			_, _, p := net.Dims()
			rng := rand.New(rand.NewPCG(11, 12))
			x := inputsOf(net, rng, rows)
			requireEvaluated(t, m, net, x, nil)
			theta := net.Theta()
			for i := range theta {
				theta[i] *= 1 + 0.2*rng.Float64()
			}
			moved := testref.Must(net.WithTheta(theta))(t)
			requireEvaluated(t, m, moved, x, byName(moved))
			requireRowwise(t, net, x)
			require.LessOrEqual(t, p, 400, "a case must be small")
			if !c.straight {
				requireDifferences(t, net)
			}
			b := testref.Must(net.Linearize(t.Context(), x))(t)
			if rows == 5 {
				requireBatch(t, b, rng)
			}
			u, got, want := gaussianMatrix(rng, rows, b.Outputs()), make([]float64, p), make([]float64, p)
			require.NoError(t, net.VJP(t.Context(), got, x, u))
			b.MulTransVecTo(want, u.RawMatrix().Data)
			testref.RequireClose(t, got, want, 1e-12, "Jᵀu")
			require.Equal(t, net.Theta(), roundTrip(t, net).Theta())
		})
	}
}

// byName splits a network's parameters by tensor.
func byName(net *network.Network) map[string][]float64 {
	theta, out := net.Theta(), map[string][]float64{}
	for _, p := range net.Params() {
		out[p.Name] = theta[p.Offset : p.Offset+p.Len()]
	}
	return out
}

// requireEvaluated compares f with the evaluator. 1e-12: both add a few
// hundred float64 terms at most, in another order.
func requireEvaluated(t *testing.T, m *onnx.Model, net *network.Network, x *mat.Dense, theta map[string][]float64) {
	t.Helper()
	rows, _ := x.Dims()
	whole := &tensor{shape: append([]int{rows}, net.InputShape()...), data: x.RawMatrix().Data}
	want := testref.Must(evaluate(m, whole, theta))(t)
	f := testref.Must(net.Forward(t.Context(), x))(t)
	testref.RequireClose(t, f.RawMatrix().Data, examplesFirst(m, whole, want, false).data, 1e-12, "f")
}

// requireRowwise checks that an example's outputs do not depend on the others.
// 1e-14: a matrix product may group its sums by the number of rows.
func requireRowwise(t *testing.T, net *network.Network, x *mat.Dense) {
	t.Helper()
	all := testref.Must(net.Forward(t.Context(), x))(t)
	rows, d := x.Dims()
	for i := range rows {
		f := testref.Must(net.Forward(t.Context(), mat.NewDense(1, d, slices.Clone(x.RawRowView(i)))))(t)
		testref.RequireClose(t, f.RawMatrix().Data, all.RawRowView(i), 1e-14, "one row")
	}
}

// operatorNames lists the operators that can be read.
func operatorNames() []string {
	var names []string
	for _, o := range network.Operators() {
		names = append(names, o.Name)
	}
	slices.Sort(names)
	return names
}
