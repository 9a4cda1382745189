package gptest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
)

// A LikelihoodCase is a likelihood to be checked, with what it is checked at.
type LikelihoodCase struct {
	Likelihood gp.Likelihood
	Outputs    int        // C
	Y          *mat.Dense // admissible targets, one example a row
	// Scale is the standard deviation of the random outputs f. 0 means 2.
	Scale float64
	// Step is the step of the differences, small against the width of p(y|f).
	// 0 means 1e-3.
	Step float64
	// Quadrature returns targets and weights of which the sum over f(target)·weight is
	// the expectation over y given f. It is needed for a gp.Scored likelihood, whose Λ is
	// the Fisher information, and only there.
	Quadrature func(f []float64) (targets [][]float64, weights []float64)
	// Tol bounds the difference between derivatives and difference quotients,
	// relative to the largest number compared. 0 means 1e-8.
	Tol float64
}

// likelihoodDraws is the number of random outputs tried with each target.
const likelihoodDraws = 20

// Likelihood checks what a gp.Likelihood promises at random outputs f:
//
//   - residual is the derivative of log p(y|f) in f, and Λ minus the derivative
//     of the residual, by differences;
//   - of a gp.Scored likelihood, CurvatureTo is minus the derivative of the residual,
//     and Λ does not depend on y and is the expectation of that and of r rᵀ; E r = 0;
//   - Λ is symmetric and positive semidefinite, and Λ = R Rᵀ also at outputs
//     ten times as large;
//   - a nil destination is skipped and changes nothing else, destinations are
//     overwritten whatever they held, and y and f stay as they are;
//   - two calls give the same bits;
//   - MeanTo writes C finite numbers.
//
// Methods that a likelihood of package glm also has are checked where they are
// there: CheckY admits the targets of the case and refuses NaN and a target too
// many, Targets is the width of Y, LogProb is what Expand returns, and
// VarianceTo writes C finite numbers of at least 0.
//
//	func TestStudent(t *testing.T) {
//		y := mat.NewDense(3, 1, []float64{-1, 0, 2.5})
//		gptest.Likelihood(t, gptest.LikelihoodCase{Likelihood: student{}, Outputs: 1, Y: y})
//	}
func Likelihood(t *testing.T, c LikelihoodCase) {
	t.Helper()
	if c.Outputs < 1 || c.Y == nil || c.Y.IsEmpty() {
		t.Fatal("the case needs outputs and targets")
	}
	if c.Scale == 0 {
		c.Scale = 2
	}
	if c.Step == 0 {
		c.Step = 1e-3
	}
	if c.Tol == 0 {
		c.Tol = 1e-8
	}
	t.Run("Residual", c.residual)
	t.Run("Lambda", c.lambda)
	t.Run("Root", c.root)
	t.Run("Nil", c.nilSkips)
	t.Run("Destinations", c.destinations)
	t.Run("InputsUnchanged", c.inputsUnchanged)
	t.Run("Mean", c.mean)
	t.Run("CheckY", c.checkY)
	t.Run("LogProb", c.logProb)
	t.Run("Variance", c.variance)
}

// each calls do with every target and random outputs of standard deviation
// factor·Scale.
func (c LikelihoodCase) each(t *testing.T, factor float64, do func(y, f []float64)) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	rows, _ := c.Y.Dims()
	for i := range rows {
		for range likelihoodDraws {
			f := make([]float64, c.Outputs)
			for j := range f {
				f[j] = factor * c.Scale * rng.NormFloat64()
			}
			do(slices.Clone(c.Y.RawRowView(i)), f)
			if t.Failed() {
				return
			}
		}
	}
}

// A site is what Expand returns for one example.
type site struct {
	logp                   float64
	residual, lambda, root []float64
}

// expand calls Expand with destinations full of NaN.
func (c LikelihoodCase) expand(y, f []float64) site {
	s := site{residual: nans(c.Outputs), lambda: nans(c.Outputs * c.Outputs), root: nans(c.Outputs * c.Outputs)}
	s.logp = c.Likelihood.Expand(s.residual, s.lambda, s.root, y, f)
	return s
}

// derivative is the fourth-order central difference of g at f in output j.
func (c LikelihoodCase) derivative(f []float64, j int, g func(f []float64) float64) float64 {
	h := c.Step
	at := func(step float64) float64 {
		moved := slices.Clone(f)
		moved[j] += step
		return g(moved)
	}
	return (8*(at(h)-at(-h)) - (at(2*h) - at(-2*h))) / (12 * h)
}

func (c LikelihoodCase) residual(t *testing.T) {
	c.each(t, 1, func(y, f []float64) {
		s := c.expand(y, f)
		for j := range f {
			want := c.derivative(f, j, func(f []float64) float64 { return c.Likelihood.Expand(nil, nil, nil, y, f) })
			scale := max(math.Abs(s.logp), largestOf(s.residual))
			if d := math.Abs(s.residual[j] - want); !(d <= c.Tol*scale) {
				t.Errorf("y = %v, f = %v: residual %d is %v, the difference quotient of log p is %v", y, f, j, s.residual[j], want)
			}
		}
	})
}

func (c LikelihoodCase) lambda(t *testing.T) {
	if scored, ok := c.Likelihood.(gp.Scored); ok {
		// Check the curvature and its expectation Λ.
		if c.Quadrature == nil {
			t.Fatal("the case of a gp.Scored likelihood needs a Quadrature")
		}
		first, n := c.Y.RawRowView(0), c.Outputs
		c.each(t, 1, func(y, f []float64) {
			s, same := c.expand(y, f), c.expand(slices.Clone(first), f)
			RequireBits(t, "Λ with another target", s.lambda, same.lambda)
			c.requirePSD(t, y, f, s.lambda)
			w := nans(n * n)
			scored.CurvatureTo(w, y, f)
			for i, got := range w {
				want := c.curvature(y, f, i/n, i%n)
				if d := math.Abs(got - want); !(d <= c.Tol*max(1, largestOf(w), largestOf(s.residual))) {
					t.Errorf("y = %v, f = %v: the curvature at (%d, %d) is %v, minus the difference quotient of the residual is %v", y, f, i/n, i%n, got, want)
				}
			}
			residual, curvature, outer := make([]float64, n), make([]float64, n*n), make([]float64, n*n)
			targets, weights := c.Quadrature(f)
			scale := 1.0
			for k, y := range targets {
				at := c.expand(y, f)
				scored.CurvatureTo(w, y, f)
				scale = max(scale, largestOf(at.residual), largestOf(w))
				for i := range n {
					residual[i] += weights[k] * at.residual[i]
					for j := range n {
						curvature[i*n+j] += weights[k] * w[i*n+j]
						outer[i*n+j] += weights[k] * at.residual[i] * at.residual[j]
					}
				}
			}
			for i, got := range s.lambda {
				if d := math.Max(math.Abs(curvature[i]-got), math.Abs(outer[i]-got)); !(d <= 1e-12*scale*scale) {
					t.Errorf("f = %v: Λ at (%d, %d) is %v, the expectation of the curvature %v, and that of r rᵀ %v", f, i/n, i%n, got, curvature[i], outer[i])
				}
			}
			if largestOf(residual) > 1e-12*scale {
				t.Errorf("f = %v: the expectation of the residual is %v", f, residual)
			}
		})
		return
	}
	c.each(t, 1, func(y, f []float64) {
		s := c.expand(y, f)
		// Residuals cannot tell apart derivatives below their own rounding.
		scale := max(1, largestOf(s.lambda), largestOf(s.residual))
		for i := range c.Outputs {
			for j := range c.Outputs {
				want := c.curvature(y, f, i, j)
				got := s.lambda[i*c.Outputs+j]
				if d := math.Abs(got - want); !(d <= c.Tol*scale) {
					t.Errorf("y = %v, f = %v: Λ at (%d, %d) is %v, minus the difference quotient of the residual is %v", y, f, i, j, got, want)
				}
			}
		}
		c.requirePSD(t, y, f, s.lambda)
	})
}

// curvature is minus the difference quotient of residual i in output j.
func (c LikelihoodCase) curvature(y, f []float64, i, j int) float64 {
	return -c.derivative(f, j, func(f []float64) float64 {
		r := make([]float64, c.Outputs)
		c.Likelihood.Expand(r, nil, nil, y, f)
		return r[i]
	})
}

func (c LikelihoodCase) requirePSD(t *testing.T, y, f, lambda []float64) {
	t.Helper()
	what := fmt.Sprintf("y = %v, f = %v: Λ", y, f)
	whole := mat.NewDense(c.Outputs, c.Outputs, slices.Clone(lambda))
	requireCovariance(t, what, whole, 1e-13*largest(whole))
}

// root checks RRᵀ = Λ to C roundings an entry.
func (c LikelihoodCase) root(t *testing.T) {
	for _, factor := range []float64{1, 10} {
		c.each(t, factor, func(y, f []float64) {
			s := c.expand(y, f)
			root, lambda := mat.NewDense(c.Outputs, c.Outputs, s.root), mat.NewDense(c.Outputs, c.Outputs, s.lambda)
			var got mat.Dense
			got.Mul(root, root.T())
			requireWithin(t, fmt.Sprintf("y = %v, f = %v: R Rᵀ", y, f), &got, lambda, 1e-13*largest(lambda))
		})
	}
}

func (c LikelihoodCase) nilSkips(t *testing.T) {
	c.each(t, 1, func(y, f []float64) {
		want := c.expand(y, f)
		for mask := range 8 {
			var got site
			if mask&1 != 0 {
				got.residual = nans(c.Outputs)
			}
			if mask&2 != 0 {
				got.lambda = nans(c.Outputs * c.Outputs)
			}
			if mask&4 != 0 {
				got.root = nans(c.Outputs * c.Outputs)
			}
			got.logp = c.Likelihood.Expand(got.residual, got.lambda, got.root, y, f)
			RequireBits(t, "log p with nil destinations", []float64{got.logp}, []float64{want.logp})
			for _, p := range []struct {
				what      string
				got, want []float64
			}{{"residual", got.residual, want.residual}, {"Λ", got.lambda, want.lambda}, {"root", got.root, want.root}} {
				if p.got != nil {
					RequireBits(t, p.what+" beside nil destinations", p.got, p.want)
				}
			}
		}
	})
}

func (c LikelihoodCase) destinations(t *testing.T) {
	c.each(t, 1, func(y, f []float64) {
		n := c.Outputs
		clean := site{residual: make([]float64, n), lambda: make([]float64, n*n), root: make([]float64, n*n)}
		clean.logp = c.Likelihood.Expand(clean.residual, clean.lambda, clean.root, y, f)
		got := c.expand(y, f)
		RequireBits(t, "log p", []float64{got.logp}, []float64{clean.logp})
		RequireBits(t, "residual in a used destination", got.residual, clean.residual)
		RequireBits(t, "Λ in a used destination", got.lambda, clean.lambda)
		RequireBits(t, "root in a used destination", got.root, clean.root)
	})
}

func (c LikelihoodCase) inputsUnchanged(t *testing.T) {
	c.each(t, 1, func(y, f []float64) {
		y0, f0 := slices.Clone(y), slices.Clone(f)
		c.expand(y, f)
		c.Likelihood.MeanTo(make([]float64, c.Outputs), f)
		RequireBits(t, "y after the calls", y, y0)
		RequireBits(t, "f after the calls", f, f0)
	})
}

func (c LikelihoodCase) mean(t *testing.T) {
	c.each(t, 1, func(_, f []float64) {
		got, again := nans(c.Outputs), make([]float64, c.Outputs)
		c.Likelihood.MeanTo(got, f)
		c.Likelihood.MeanTo(again, f)
		requireFinite(t, "mean", got)
		RequireBits(t, "mean in a used destination", got, again)
	})
}

func (c LikelihoodCase) checkY(t *testing.T) {
	lik, ok := c.Likelihood.(interface {
		CheckY(y []float64, c int) error
	})
	if !ok {
		t.Skip("the likelihood has no CheckY")
	}
	rows, width := c.Y.Dims()
	for i := range rows {
		if err := lik.CheckY(c.Y.RawRowView(i), c.Outputs); err != nil {
			t.Errorf("target %v: %v", c.Y.RawRowView(i), err)
		}
	}
	if lik.CheckY(nans(width), c.Outputs) == nil {
		t.Error("targets that are NaN are admitted")
	}
	if lik.CheckY(append(slices.Clone(c.Y.RawRowView(0)), 0), c.Outputs) == nil {
		t.Error("a target too many is admitted")
	}
	if lik, ok := c.Likelihood.(interface{ Targets(c int) int }); ok && lik.Targets(c.Outputs) != width {
		t.Errorf("Targets says %d for %d outputs, the case has %d", lik.Targets(c.Outputs), c.Outputs, width)
	}
}

func (c LikelihoodCase) logProb(t *testing.T) {
	lik, ok := c.Likelihood.(interface{ LogProb(y, f []float64) float64 })
	if !ok {
		t.Skip("the likelihood has no LogProb")
	}
	c.each(t, 1, func(y, f []float64) {
		got, want := lik.LogProb(y, f), c.Likelihood.Expand(nil, nil, nil, y, f)
		if !(math.Abs(got-want) <= 1e-12*math.Max(1, math.Abs(want))) {
			t.Errorf("y = %v, f = %v: LogProb is %v, Expand returns %v", y, f, got, want)
		}
	})
}

func (c LikelihoodCase) variance(t *testing.T) {
	lik, ok := c.Likelihood.(interface{ VarianceTo(dst, f []float64) })
	if !ok {
		t.Skip("the likelihood has no VarianceTo")
	}
	c.each(t, 1, func(_, f []float64) {
		f0, v := slices.Clone(f), nans(c.Outputs)
		lik.VarianceTo(v, f)
		requireFinite(t, "variance", v)
		RequireBits(t, "f after VarianceTo", f, f0)
		if slices.Min(v) < 0 {
			t.Errorf("f = %v: the variance is %v", f, v)
		}
	})
}

func nans(n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = math.NaN()
	}
	return v
}

// largestOf returns the largest absolute value, NaN where there is one.
func largestOf(v []float64) float64 {
	m := 0.0
	for _, x := range v {
		m = math.Max(m, math.Abs(x))
	}
	return m
}

func requireFinite(t *testing.T, what string, v []float64) {
	t.Helper()
	for i, x := range v {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			t.Fatalf("%s %d is %v", what, i, x)
		}
	}
}
