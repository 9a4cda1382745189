package network

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize/network/internal/graph"
)

// half is the log likelihood −½‖y−f‖².
type half struct{}

func (half) Expand(residual, _, _, y, f []float64) float64 {
	s := 0.0
	for i := range f {
		residual[i] = y[i] - f[i]
		s -= 0.5 * residual[i] * residual[i]
	}
	return s
}

func normals(rng *rand.Rand, rows, cols int) *mat.Dense {
	m := mat.NewDense(rows, cols, nil)
	for i := range rows {
		for j := range cols {
			m.Set(i, j, rng.NormFloat64())
		}
	}
	return m
}

// noisy is a network with everything that acts in training only.
func noisy(t *testing.T, seed uint64) *Network {
	t.Helper()
	n, err := Seeded(seed, Shape{2, 5, 5}, Conv2D{Filters: 3, Kernel: 2, NoBias: true}, BatchNorm{}, ReLU, Dropout{Ratio: 0.2}, MaxPool2D{Size: 2},
		Residual{Layers: []Layer{Conv2D{Filters: 3, Kernel: 3, Padding: 1}, BatchNorm{Momentum: 0.3}, Tanh}},
		Flatten{}, Dense{Units: 6}, BatchNorm{}, Tanh, Dropout{Ratio: 0.5}, Dense{Units: 2})
	require.NoError(t, err)
	return n
}

// The gradient of the log likelihood in training, through the moments of the rows and at the
// elements that are not dropped, is that of finite differences, and does not depend on
// how the rows are cut into chunks.
func TestGradientInTraining(t *testing.T) {
	const rows = 23
	n, rng := noisy(t, 3), rand.New(rand.NewPCG(1, 2))
	x, y := normals(rng, rows, n.prog.D), normals(rng, rows, 2)
	theta := n.Theta()
	at := func(l *LogLik, dst []float64) float64 {
		l.steps = 5
		return testref.Must(l.GradientTo(t.Context(), dst, theta, x, y))(t)
	}
	chunked := func(chunk int) *LogLik {
		l := testref.Must(n.TrainingLogLik(half{}, 0))(t)
		l.sum.prog.Chunk = chunk
		return l
	}
	whole, grad := chunked(rows), make([]float64, len(theta))
	want := at(whole, grad)
	for _, chunk := range []int{1, 2, 7} { // at most 16 chunks, so that 1 becomes 2
		l, other := chunked(chunk), make([]float64, len(theta))
		require.InEpsilon(t, want, at(l, other), 1e-13)
		require.InDeltaSlice(t, grad, other, 1e-11)
		for i, r := range l.running {
			require.InDeltaSlice(t, whole.running[i].mean, r.mean, 1e-14)
			require.InDeltaSlice(t, whole.running[i].variance, r.variance, 1e-14)
		}
	}
	const h = 1e-5
	scratch := make([]float64, len(theta))
	for i := range grad {
		old := theta[i]
		theta[i] = old + h
		up := at(whole, scratch)
		theta[i] = old - h
		down := at(whole, scratch)
		theta[i] = old
		require.InDelta(t, (up-down)/(2*h), grad[i], 2e-5*(1+math.Abs(grad[i])), "parameter %d", i)
	}
}

// The share of dropped elements is the ratio, they are others at each step, layer and
// example, and the same again for the same seed.
func TestDropper(t *testing.T) {
	const n = 20000
	draw := func(seed uint64, step, layer, example int, ratio float64) []float64 {
		dst := make([]float64, n)
		graph.SeededDropper(seed, step)(dst, &graph.Dropout{Ratio: ratio, Layer: layer}, example)
		return dst
	}
	for _, ratio := range []float64{0.1, 0.5, 0.9} {
		zeros := 0.0
		for _, v := range draw(1, 2, 3, 4, ratio) {
			if v == 0 {
				zeros++
				continue
			}
			require.InEpsilon(t, 1/(1-ratio), v, 1e-15)
		}
		require.InDelta(t, ratio, zeros/n, 5*math.Sqrt(ratio*(1-ratio)/n))
	}
	base := draw(1, 2, 3, 4, 0.5)
	require.Equal(t, base, draw(1, 2, 3, 4, 0.5))
	for _, other := range [][]float64{draw(2, 2, 3, 4, 0.5), draw(1, 3, 3, 4, 0.5), draw(1, 2, 4, 4, 0.5), draw(1, 2, 3, 5, 0.5)} {
		agree := 0.0
		for i := range base {
			if base[i] == other[i] {
				agree++
			}
		}
		require.InDelta(t, 0.5, agree/n, 5*0.5/math.Sqrt(n), "independent")
	}
}

// What cannot be trained is one error.
func TestTrainingRefuses(t *testing.T) {
	grouped := testref.Must(noisy(t, 1).GroupOutputs([]int{0}))(t)
	require.ErrorContains(t, testref.Err(grouped.TrainingLogLik(half{}, 0)), "before its outputs are grouped")
	require.ErrorContains(t, testref.Err(Sequential(Shape{3}, Dropout{Ratio: 1})), "a ratio of 1")
	require.ErrorContains(t, testref.Err(Sequential(Shape{3}, BatchNorm{Momentum: 2})), "a momentum of 2")
}
