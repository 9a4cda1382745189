package glm

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"
)

// A Link turns the Gaussian over each example's outputs, f with covariance
// cov, into a predictive (E11). f is T×C, cov T·C×C with one block an example,
// of which the upper triangles are read.
//
//	MAP         any likelihood          g⁻¹(f), cov ignored
//	Exact       a Marginal likelihood   E g⁻¹(f): Bernoulli, Poisson, Gaussian, any C
//	Probit      Bernoulli, Categorical  g⁻¹ of shrunken logits
//	MonteCarlo  any likelihood          average of g⁻¹ over draws, with a seed
//	Bridge      Bernoulli, Categorical  mean of a Dirichlet distribution
//
// The errors are *UnsupportedError, *ValueError for a number in f or cov that
// cannot be, naming its row, and *NotPDError. A variance below zero by no more
// than 1e-6 of 1 + the block's largest is rounding and counts as zero.
type Link interface {
	// PredictTo writes the predictive mean E[y|x] (for classes their
	// probabilities) and the standard deviation of g⁻¹(f) under the posterior,
	// both T×C. A nil destination is skipped, an empty one is sized.
	PredictTo(mean, sd *mat.Dense, lik Likelihood, f, cov *mat.Dense) error
	// LogPredictiveTo writes log p(y|x) of each example, T numbers, without
	// underflow; y is T×Targets(C).
	LogPredictiveTo(dst []float64, lik Likelihood, y, f, cov *mat.Dense) error
}

// A Splitter divides the predictive variance of each output or class
// indicator, Var[y] = E Var[y|f] + Var E[y|f], into its aleatoric part, for
// classes the diagonal of E[Λ], and its epistemic part [glm fig. 4]. Exact and
// MonteCarlo can.
type Splitter interface {
	SplitTo(aleatoric, epistemic *mat.Dense, lik Likelihood, f, cov *mat.Dense) error
}

// A Marginal likelihood knows its integrals against a Gaussian.
type Marginal interface {
	// Moments returns E g⁻¹(f), Var g⁻¹(f) and E Var[y|f] of one output for
	// f ~ N(m, v), v ≥ 0.
	Moments(output int, m, v float64) (mean, epistemic, aleatoric float64)
	// LogMarginal returns log E[p(y|f)] of one example for f ~ N(f, cov), cov
	// C·C row-major.
	LogMarginal(y, f, cov []float64) (float64, error)
}

// DefaultLink returns the deterministic link of a likelihood: Exact where it
// is a Marginal, Probit for classes, else a MonteCarlo with its default seed.
func DefaultLink(lik Likelihood) Link {
	if _, ok := lik.(Marginal); ok {
		return Exact{}
	}
	if _, ok := lik.(Categorical); ok {
		return Probit{}
	}
	return MonteCarlo{}
}

// UnsupportedError reports a link that has no meaning for a likelihood.
type UnsupportedError struct{ Link, Likelihood string }

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("glm: no %s link for the %s likelihood; use MonteCarlo or DefaultLink", e.Link, e.Likelihood)
}

// ValueError reports a number in the posterior that cannot be: NaN, Inf or a
// variance below zero. What is "mean", "covariance", or "eigenvalue" of the
// covariance, where Output counts from the smallest.
type ValueError struct {
	What        string
	Row, Output int
	Value       float64
}

func (e *ValueError) Error() string {
	return fmt.Sprintf("glm: row %d, output %d: the %s of f is %v; the posterior is not finite and positive semidefinite",
		e.Row, e.Output, e.What, e.Value)
}

// posterior hands out the rows of f and cov, checked.
type posterior struct {
	f, cov *mat.Dense
	t, c   int
	block  []float64 // the row's covariance, C·C, symmetric, diagonal ≥ 0
}

func newPosterior(f, cov *mat.Dense) *posterior {
	t, c := f.Dims()
	if r, k := cov.Dims(); r != t*c || k != c {
		panic("glm: covariance is not T·C×C")
	}
	return &posterior{f: f, cov: cov, t: t, c: c, block: make([]float64, c*c)}
}

// each calls do for every row in order, and stops at the first error. What it
// passes is valid until do returns.
func (p *posterior) each(do func(t int, f, cov []float64) error) error {
	for t := range p.t {
		f := p.f.RawRowView(t)
		if err := checkFinite(f, t); err != nil {
			return err
		}
		if err := p.load(t); err != nil {
			return err
		}
		if err := do(t, f, p.block); err != nil {
			return err
		}
	}
	return nil
}

func checkFinite(f []float64, t int) error {
	for j, v := range f {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return &ValueError{What: "mean", Row: t, Output: j, Value: v}
		}
	}
	return nil
}

// psdTol is the part of 1 + the largest variance below which a negative
// variance or eigenvalue is rounding: in logits it moves a probability by less
// than 1e-7.
const psdTol = 1e-6

// load reads the covariance of row t.
func (p *posterior) load(t int) error {
	c, largest := p.c, 0.0
	for i := range c {
		row := p.cov.RawRowView(t*c + i)
		for j := i; j < c; j++ {
			v := row[j]
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return &ValueError{What: "covariance", Row: t, Output: i, Value: v}
			}
			p.block[i*c+j], p.block[j*c+i] = v, v
		}
		largest = max(largest, row[i])
	}
	for i := range c {
		v := &p.block[i*c+i]
		if *v < -psdTol*(1+largest) {
			return &ValueError{What: "variance", Row: t, Output: i, Value: *v}
		}
		*v = max(*v, 0)
	}
	return nil
}

// sizeTo sizes an empty destination and panics on a wrong size; nil is skipped.
func sizeTo(m *mat.Dense, t, c int) {
	if m == nil {
		return
	}
	if m.IsEmpty() {
		m.ReuseAs(t, c)
	}
	if r, k := m.Dims(); r != t || k != c {
		panic("glm: destination is not T×C")
	}
}

// setAt writes one element of a destination that may be nil.
func setAt(m *mat.Dense, t, j int, v float64) {
	if m != nil {
		m.Set(t, j, v)
	}
}

// checkLog panics when dst and y do not fit T examples with c outputs.
func checkLog(dst []float64, lik Likelihood, y *mat.Dense, t, c int) {
	if len(dst) != t {
		panic("glm: dst has not one element an example")
	}
	if r, k := y.Dims(); r != t || k != lik.Targets(c) {
		panic("glm: y is not T×Targets(C)")
	}
}
