package newton_test

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/newton"
)

// A concave is an objective of one number x with its first two derivatives.
type concave struct {
	value, slope, curvature func(x float64) float64
}

func (c concave) Between(a, b, t float64) float64 { return a + t*(b-a) }
func (c concave) Objective(x float64) float64     { return newton.Finite(c.value(x)) }
func (c concave) Slope(x, a, b float64) float64   { return c.slope(x) * (b - a) }
func (c concave) Values(x float64) []float64      { return []float64{x} }
func (c concave) step(x float64) float64          { return x - c.slope(x)/c.curvature(x) }
func (c concave) search(s *newton.Search, x float64) (float64, error) {
	return newton.Find(s, c, []float64{x}, x, func(_ []float64, x float64) (float64, error) { return c.step(x), nil })
}

// errSecond is the error of once at a second step.
var errSecond = errors.New("a second step")

// once makes one step, from a to b with the sites at f, and returns where the second one would start, or the end of the
// search.
func once(s *newton.Search, c concave, f, a, b float64) (x float64, err error) {
	first := true
	return newton.Find(s, c, []float64{f}, a, func(_ []float64, x float64) (float64, error) {
		if !first {
			return x, errSecond
		}
		first = false
		return b, nil
	})
}

func search(most int) *newton.Search { return &newton.Search{MaxIter: most, Move: math.Inf(1)} }

// counts is Σ log p of three Poisson counts at x = log of the mean, with a
// standard normal prior: 3x − exp(x) − ½x².
var counts = concave{
	value:     func(x float64) float64 { return 3*x - math.Exp(x) - x*x/2 },
	slope:     func(x float64) float64 { return 3 - math.Exp(x) - x },
	curvature: func(x float64) float64 { return -math.Exp(x) - 1 },
}

func TestSearchSettlesAtTheMode(t *testing.T) {
	for _, from := range []float64{-30, -1, 0, 1, 30} {
		s := search(100)
		x, err := counts.search(s, from)
		require.NoError(t, err)
		require.InDelta(t, 0, counts.slope(x), 1e-11)
		require.Empty(t, s.Warnings())
		require.Less(t, s.Steps, 50)
	}
}

// Full Newton steps of −log cosh x diverge from beyond 1.09, the search does not.
func TestSearchShortensSteps(t *testing.T) {
	logCosh := concave{
		value:     func(x float64) float64 { return -math.Log(math.Cosh(x - 3)) },
		slope:     func(x float64) float64 { return -math.Tanh(x - 3) },
		curvature: func(x float64) float64 { return math.Pow(math.Tanh(x-3), 2) - 1 },
	}
	s := search(100)
	x, err := logCosh.search(s, 6)
	require.NoError(t, err)
	require.Less(t, s.Steps, 100)
	require.InDelta(t, 3, x, 1e-9)
	require.Empty(t, s.Warnings())
}

func TestSearchIsExhausted(t *testing.T) {
	s := search(2)
	_, err := counts.search(s, 30)
	require.NoError(t, err)
	require.Equal(t, 2, s.Steps)
	require.NotEmpty(t, s.Warnings())
}

// A step that leads down the objective has no part that raises it.
func TestSearchIsStuck(t *testing.T) {
	s := search(100)
	end, err := once(s, counts, 0, 0, -1)
	require.NoError(t, err)
	require.Equal(t, -1.0, end)
	require.Zero(t, s.Steps)
	require.NotEmpty(t, s.Warnings())
}

// From θ* the search starts at the prior mean, and stays there where no part of
// the step is better.
func TestSearchFromTheta(t *testing.T) {
	s := search(100)
	s.AtTheta = true
	next, err := once(s, counts, 5, 0, -1)
	require.ErrorIs(t, err, errSecond)
	require.Zero(t, next)
	require.Equal(t, 1, s.Steps)
}

func TestSearchHasNoObjective(t *testing.T) {
	never := concave{value: func(float64) float64 { return math.NaN() }, slope: counts.slope, curvature: counts.curvature}
	s := search(100)
	s.AtTheta = true
	_, err := once(s, never, 5, 0, 1)
	require.ErrorIs(t, err, newton.ErrNoObjective)
}

// A refit ends after a step as short as asked for, and before a step of no length.
func TestSearchEndsWhereAsked(t *testing.T) {
	near := search(100)
	near.Short = 1e-3
	x, err := counts.search(near, 30)
	require.NoError(t, err)
	far := search(100)
	_, err = counts.search(far, 30)
	require.NoError(t, err)
	require.Less(t, near.Steps, far.Steps)
	require.Less(t, near.Move, 1e-3)
	require.InDelta(t, 0, counts.slope(x), 1e-3)

	s := search(100)
	x, err = once(s, counts, 30, 30, 30)
	require.NoError(t, err)
	require.Equal(t, 30.0, x)
	require.Zero(t, s.Steps)
	require.Empty(t, s.Warnings())
}

// A step that is long relative to an f̂ near zero but promises no gain is no
// reason to warn.
func TestSearchIgnoresStepsWithoutGain(t *testing.T) {
	parabola := concave{
		value: func(x float64) float64 { return -x * x / 2 }, slope: func(x float64) float64 { return -x }, curvature: func(float64) float64 { return -1 },
	}
	s := search(100)
	_, err := once(s, parabola, 1e-12, 1e-12, 1e-16)
	require.ErrorIs(t, err, errSecond)
	require.Greater(t, s.Move, newton.SmallOpen)
	require.Empty(t, s.Warnings())
}

func TestRelative(t *testing.T) {
	require.Zero(t, newton.RelativeMove([]float64{0, 0}, []float64{0, 0}))
	require.Equal(t, 1.5, newton.RelativeMove([]float64{1, 2}, []float64{3, -4}))
	require.Zero(t, newton.RelativeTo(0, []float64{0}))
	require.Equal(t, 0.25, newton.RelativeTo(1, []float64{2, -4}))
	require.True(t, math.IsInf(newton.RelativeTo(1, []float64{0}), 1))
}

func TestOverflow(t *testing.T) {
	at, sum := newton.Overflow([]float64{1, 2}, []float64{3, 4})
	require.Equal(t, -1, at)
	require.Equal(t, 11.0, sum)
	at, sum = newton.Overflow([]float64{1, 1e200, 1}, []float64{1, 1e200, 1})
	require.Equal(t, 1, at)
	require.True(t, math.IsInf(sum, 1))
	at, _ = newton.Overflow([]float64{math.NaN()}, []float64{1})
	require.Zero(t, at)
}

func TestMixAndFinite(t *testing.T) {
	require.Equal(t, []float64{1, 2.5}, newton.Mix([]float64{0, 2}, []float64{4, 4}, 0.25))
	require.Equal(t, []float64{-4, -2}, newton.Minus([]float64{0, 2}, []float64{4, 4}))
	require.Equal(t, 2.0, newton.Finite(2))
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		require.True(t, math.IsInf(newton.Finite(v), -1))
	}
}

// unitNormal is a normal likelihood with variance 1, without its constant.
type unitNormal struct{ *mat.Dense }

func (n unitNormal) Len() int   { return n.RawMatrix().Rows }
func (unitNormal) Scored() bool { return false }
func (n unitNormal) Expand(i int, residual, _, _, f []float64) float64 {
	y, sum := n.RawRowView(i), 0.0
	for j := range f {
		if residual != nil {
			residual[j] = y[j] - f[j]
		}
		sum -= (y[j] - f[j]) * (y[j] - f[j]) / 2
	}
	return sum
}

func TestSumsOverExamples(t *testing.T) {
	y, f := unitNormal{mat.NewDense(2, 2, []float64{1, 2, 3, 4})}, []float64{0, 1, 1, 4}
	require.Equal(t, -3.0, newton.LogLik(y, f))
	a, b := []float64{0, 0, 0, 0}, []float64{1, 1, 2, 1}
	require.Equal(t, 6.0, newton.Slope(y, f, nil, a, b))
	require.Equal(t, 1.0, newton.Slope(y, f, []float64{1, 1, 1, 1}, a, b))
}

// Conjugate gradients solve for each right-hand side by itself, also where another takes more steps.
func TestConjugateGradients(t *testing.T) {
	h := mat.NewSymDense(4, []float64{5, 1, 0, 2, 1, 4, 1, 0, 0, 1, 3, 1, 2, 0, 1, 6})
	want := mat.NewDense(3, 4, []float64{1, -2, 3, 4, 0, 0, 0, 0, 2, 1, -1, .5})
	var g mat.Dense
	g.Mul(want, h)
	times := func(v *mat.Dense) (*mat.Dense, error) {
		var to mat.Dense
		to.Mul(v, h)
		return &to, nil
	}
	diagonal := func(v *mat.Dense) error {
		v.Apply(func(_, j int, x float64) float64 { return x / h.At(j, j) }, v)
		return nil
	}
	cg := newton.ConjugateGradients{Times: times, Precondition: diagonal, Residual: 1e-12}
	x, settled, err := cg.Solve(t.Context(), &g, 10)
	require.NoError(t, err)
	require.False(t, settled, "a right-hand side of zeros has no direction")
	require.True(t, mat.EqualApprox(x, want, 1e-11))
	for _, i := range []int{0, 2} {
		one, settled, err := cg.Solve(t.Context(), g.Slice(i, i+1, 0, 4).(*mat.Dense), 10)
		require.NoError(t, err)
		require.True(t, settled)
		require.Equal(t, x.RawRowView(i), one.RawRowView(0))
	}
	_, settled, err = cg.Solve(t.Context(), g.Slice(0, 1, 0, 4).(*mat.Dense), 2)
	require.NoError(t, err)
	require.False(t, settled)
}
