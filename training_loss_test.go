package funcgp

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/diff/fd"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/optimize"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/linearize"
)

// A trainingCase is a linear model of rows of overlapping classes, trained by some loss.
type trainingCase struct {
	lik   glm.Likelihood
	c     int // outputs
	x     *mat.Dense
	class []int

	stated loss
}

// newTrainingCase draws rows with a bias and three features; the last class is rare.
func newTrainingCase(lik glm.Likelihood, c, n int, seed uint64) *trainingCase {
	rng, k := rand.New(rand.NewPCG(seed, 5)), max(c, 2)
	t := &trainingCase{lik: lik, c: c, x: mat.NewDense(n, 4, nil), class: make([]int, n)}
	for i := range n {
		y := rng.IntN(k)
		if y == k-1 && rng.Float64() < .6 {
			y = 0
		}
		t.class[i] = y
		t.x.SetRow(i, []float64{1, rng.NormFloat64() + 1.5*float64(y%2), rng.NormFloat64() + float64(y/2), rng.NormFloat64()})
	}
	return t
}

// outputs are those at parameters, C×4 row by row.
func (t *trainingCase) outputs(theta []float64) *mat.Dense {
	var f mat.Dense
	f.Mul(t.x, mat.NewDense(t.c, 4, theta).T())
	return &f
}

// train minimizes Σ loss(y, log probabilities) + ½δ‖θ‖², and returns the parameters.
func (t *trainingCase) train(test *testing.T, delta float64, loss func(y int, logp []float64) float64) []float64 {
	test.Helper()
	value := func(theta []float64) float64 {
		f, sum := t.outputs(theta), delta/2*floats.Dot(theta, theta)
		for i, y := range t.class {
			sum += loss(y, logProbabilities(f.RawRowView(i)))
		}
		return sum
	}
	p := optimize.Problem{Func: value, Grad: func(g, theta []float64) { fd.Gradient(g, value, theta, &fd.Settings{Formula: fd.Central}) }}
	r, _ := optimize.Minimize(p, make([]float64, 4*t.c), &optimize.Settings{GradientThreshold: 1e-3, MajorIterations: 200}, &optimize.BFGS{}) // near enough is enough
	return r.X
}

// warnings are those of the preflight at the parameters.
func (t *trainingCase) warnings(test *testing.T, theta []float64) []error {
	test.Helper()
	n, _ := t.x.Dims()
	l := &linearCase{lik: t.lik, x: t.x, y: mat.NewDense(n, 1, nil), f: t.outputs(theta)}
	for i, y := range t.class {
		l.y.Set(i, 0, float64(y))
	}
	at := &atTheta{F: l.f, Theta: theta, Pull: func(_ context.Context, r *mat.Dense) ([]float64, error) {
		var g mat.Dense
		g.Mul(r.T(), t.x)
		return g.RawMatrix().Data, nil
	}}
	p := l.problem(test, 1, fromDefault)
	p.Task.Loss = t.stated
	p.Examples.fitted = p.Task.objective(p.Examples.Train, l.y, t.c)
	_, warnings, err := p.Preflight(test.Context(), at)
	require.NoError(test, err)
	return warnings
}

func crossEntropy(y int, logp []float64) float64 { return -logp[y] }

// weighted weighs the last class three times, focal has γ = 2, smoothed ε = 0.2.
func weighted(y int, logp []float64) float64 {
	if y == len(logp)-1 {
		return -3 * logp[y]
	}
	return -logp[y]
}

func focal(y int, logp []float64) float64 { return -math.Pow(1-math.Exp(logp[y]), 2) * logp[y] }

func smoothed(y int, logp []float64) float64 {
	return -.8*logp[y] - .2*floats.Sum(logp)/float64(len(logp))
}

// A training loss that is not the likelihood is told, by its kind, and one that is is not, whatever the decay.
func TestTrainingLoss(t *testing.T) {
	for name, lik := range map[string]glm.Likelihood{"two classes": glm.Bernoulli{}, "four": glm.Categorical{}} {
		c := newTrainingCase(lik, map[string]int{"two classes": 1, "four": 4}[name], 400, 3)
		for _, delta := range []float64{0, 1, 20} {
			require.Empty(t, c.warnings(t, c.train(t, delta, crossEntropy)), "%s, δ = %g", name, delta)
			w := c.warnings(t, c.train(t, delta, weighted))
			require.Len(t, w, 1, "%s, δ = %g", name, delta)
			require.Equal(t, "loss-weighted", linearize.WarningOf(w[0]).Code)
			if delta < 20 {
				require.Regexp(t, `\(class \d at (2.9|3|3.1) times the weight of class \d\)`, w[0].Error())
			}
			for of, loss := range map[string]func(int, []float64) float64{"focal loss (γ near 2)": focal, "label smoothing (ε near 0.2)": smoothed} {
				w := c.warnings(t, c.train(t, delta, loss))
				require.Len(t, w, 1, "%s, δ = %g, %s", name, delta, of)
				require.Equal(t, "loss-flattened", linearize.WarningOf(w[0]).Code)
				if delta < 1 {
					require.ErrorContains(t, w[0], of)
				}
			}
		}
	}
}

// Weights of classes and smoothing that are stated are part of the loss: nothing is told of them, and another loss than the
// stated one is.
func TestStatedLoss(t *testing.T) {
	for name, lik := range map[string]glm.Likelihood{"two classes": glm.Bernoulli{}, "four": glm.Categorical{}} {
		c := newTrainingCase(lik, map[string]int{"two classes": 1, "four": 4}[name], 400, 3)
		last := max(c.c, 2) - 1
		for _, delta := range []float64{0, 1, 20} {
			w3 := slices.Repeat([]float64{1}, last+1)
			w3[last] = 3
			c.stated = loss{Smoothing: .2}
			require.Empty(t, c.warnings(t, c.train(t, delta, smoothed)), "%s, δ = %g", name, delta)
			c.stated = loss{ClassWeights: w3, Smoothing: .2}
			require.Empty(t, c.warnings(t, c.train(t, delta, func(y int, logp []float64) float64 {
				sum := 0.0 // as torch.nn.functional.cross_entropy adds it up
				for c, lp := range logp {
					sum -= .2 / float64(len(logp)) * w3[c] * lp
				}
				return sum - .8*w3[y]*logp[y]
			})), "%s, δ = %g", name, delta)
			c.stated = loss{ClassWeights: w3}
			require.Empty(t, c.warnings(t, c.train(t, delta, weighted)), "%s, δ = %g", name, delta)
			if delta == 20 { // which moves shares as much
				continue
			}
			w := c.warnings(t, c.train(t, delta, crossEntropy))
			require.Len(t, w, 1, "%s, δ = %g", name, delta)
			require.Contains(t, []string{"loss-weighted", "overconfident"}, linearize.WarningOf(w[0]).Code)
		}
	}
}

// Residuals are the derivatives of the losses, by differences.
func TestFlatLosses(t *testing.T) {
	f, y := []float64{.3, -1.2, .9}, 2
	for i, loss := range map[int]func(int, []float64) float64{1: focal, 6: smoothed} {
		value := func(f []float64) float64 { return loss(y, logProbabilities(f)) }
		want, logp := fd.Gradient(nil, value, f, &fd.Settings{Formula: fd.Central}), logProbabilities(f)
		scale, shift := flatLosses[i].residual(math.Exp(logp[y]), logp[y])
		for j, v := range logp {
			r := -scale * math.Exp(v)
			if j == y {
				r += scale
			}
			require.InDelta(t, -want[j], r+shift*(1./3-math.Exp(v)), 1e-8, flatLosses[i].name)
		}
	}
}

// The weights make what is expected of each class what there is.
func TestBalancedWeights(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 9))
	for _, k := range []int{2, 3, 7} {
		to := mat.NewDense(k, k, nil)
		for i := range k * k {
			to.RawMatrix().Data[i] = rng.Float64() / float64(k*k)
		}
		w := balancedWeights(to)
		mean, all := 0.0, mat.Sum(to)
		for y := range k {
			share, expected := mat.Sum(to.RowView(y)), 0.0
			for v := range k {
				expected += w[v] * to.At(v, y)
			}
			require.InDelta(t, w[y]*share, expected, 1e-14)
			mean += w[y] * share / all
		}
		require.InDelta(t, 1, mean, 1e-14)
	}
	// A class without rows, and a network that is always right and sure.
	require.Equal(t, 1., balancedWeights(mat.NewDense(2, 2, []float64{.7, .3, 0, 0}))[1])
	require.Equal(t, []float64{1, 1}, balancedWeights(mat.NewDense(2, 2, []float64{.7, 0, 0, .3})))
}
