package gp

import (
	"context"
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize"
)

// Sites are the local Gaussian factors of the likelihood at given function
// values (E3): residual r = ∂log p(y|f)/∂f, Λ = −∂²log p/∂f² and a root
// Λ = R Rᵀ (E4). Λ may be singular. Sites are read-only once built.
type Sites struct {
	F, Residual  *mat.Dense // N×C
	Lambda, Root *mat.Dense // N·C×C, one C×C block an example
	LogLik       float64    // Σ log p(y|f)
}

// A checker is a Likelihood that rejects targets it does not admit.
type checker interface {
	CheckY(y []float64, c int) error
}

// NewSites expands the likelihood of the targets at f, N×C. A NaN or Inf in y, in f or in what the likelihood
// returns is a *NotFiniteError. The other errors are those of Targets.CheckFor.
func NewSites(y *Targets, f *mat.Dense) (*Sites, error) {
	if err := y.checkAt(f); err != nil {
		return nil, err
	}
	return expand(y, f)
}

// ErrNoExamples says that there are no training examples.
var ErrNoExamples = errors.New("gp: there are no training examples")

// expand is NewSites for targets that are known to be valid.
func expand(y *Targets, f *mat.Dense) (*Sites, error) {
	n, c := f.Dims()
	s := &Sites{
		F: mat.DenseCopyOf(f), Residual: mat.NewDense(n, c, nil),
		Lambda: mat.NewDense(n*c, c, nil), Root: mat.NewDense(n*c, c, nil),
	}
	lambda, root := s.Lambda.RawMatrix().Data, s.Root.RawMatrix().Data
	for i := range n {
		at := i * c * c
		logp := y.Expand(i, s.Residual.RawRowView(i), lambda[at:at+c*c], root[at:at+c*c], s.F.RawRowView(i))
		if math.IsNaN(logp) || math.IsInf(logp, 0) {
			return nil, &NotFiniteError{What: "log p(y|f)", Row: i, Value: logp}
		}
		s.LogLik += logp
	}
	return s, s.check()
}

// UniformSites returns the sites of n examples with c outputs each, which were all seen
// with the same Gaussian noise, R = I/√variance, where f is zero and r is too. The
// posterior's variances then tell where the examples lie and not what their targets are
// (E22); its mean means nothing. A variance that is not positive and finite panics.
func UniformSites(n, c int, variance float64) *Sites {
	if !(variance > 0) || math.IsInf(variance, 1) {
		panic("gp: a noise variance must be positive and finite")
	}
	s := &Sites{F: mat.NewDense(n, c, nil), Residual: mat.NewDense(n, c, nil), Lambda: mat.NewDense(n*c, c, nil), Root: mat.NewDense(n*c, c, nil)}
	for i := range n * c {
		s.Lambda.Set(i, i%c, 1/variance)
		s.Root.Set(i, i%c, 1/math.Sqrt(variance))
	}
	return s
}

// check returns a *NotFiniteError where the sites hold a NaN or Inf.
func (s *Sites) check() error {
	c := s.outputs()
	for _, p := range []struct {
		what string
		m    *mat.Dense
		rows int // of m for one example
	}{{"function value", s.F, 1}, {"residual", s.Residual, 1}, {"Λ", s.Lambda, c}, {"root of Λ", s.Root, c}} {
		if err := checkFinite(p.what, p.m); err != nil {
			at := err.(*NotFiniteError)
			if p.rows > 1 {
				at.Row, at.Output = at.Row/c, at.Row%c
			}
			return at
		}
	}
	return nil
}

// checkFinite names the first entry of m that is NaN or Inf.
func checkFinite(what string, m *mat.Dense) error {
	rows, _ := m.Dims()
	for i := range rows {
		if j := dense.NotFinite(m.RawRowView(i)); j >= 0 {
			return &NotFiniteError{What: what, Row: i, Output: j, Value: m.At(i, j)}
		}
	}
	return nil
}

// fits tells whether the sites belong to n examples with c outputs.
func (s *Sites) fits(n, c int) bool {
	return dense.Is(s.F, n, c) && dense.Is(s.Residual, n, c) && dense.Is(s.Lambda, n*c, c) && dense.Is(s.Root, n*c, c)
}

func (s *Sites) outputs() int {
	_, c := s.F.Dims()
	return c
}

// SitesFrom returns the sites at f(x;θ*) of all examples of x. It passes over x
// once. The errors are those of NewSites and of x.
func SitesFrom(ctx context.Context, x linearize.Source, y *Targets) (*Sites, error) {
	if n := y.Len(); n != x.Len() {
		return nil, fmt.Errorf("gp: %d rows of targets for %d examples", n, x.Len())
	}
	f, err := linearize.Outputs(ctx, x)
	if err != nil {
		return nil, err
	}
	return NewSites(y, f)
}

// Rows returns a copy of the sites of some examples, in the order of rows. For a
// row of −1 it returns a site that carries no information: f, r and Λ are zero.
// LogLik is NaN, because only the sum over all examples is known; the caller may
// set it.
func (s *Sites) Rows(rows []int) *Sites {
	c := s.outputs()
	pick := func(m *mat.Dense, per int) *mat.Dense {
		out := mat.NewDense(len(rows)*per, c, nil)
		for i, r := range rows {
			for a := 0; a < per && r >= 0; a++ {
				out.SetRow(i*per+a, m.RawRowView(r*per+a))
			}
		}
		return out
	}
	return &Sites{F: pick(s.F, 1), Residual: pick(s.Residual, 1), Lambda: pick(s.Lambda, c), Root: pick(s.Root, c), LogLik: math.NaN()}
}

// SitesMoved returns the sites at f_lin(x;θ*+move) = f(x;θ*) + J(x)·move of all examples of x (E1),
// where move has length P, such as v*−θ* at the mode of the linearized model (E9). It passes over x
// once. The errors are those of NewSites and of x.
func SitesMoved(ctx context.Context, x linearize.Source, move []float64, y *Targets) (*Sites, error) {
	n := y.Len()
	if n != x.Len() {
		return nil, fmt.Errorf("gp: %d rows of targets for %d examples", n, x.Len())
	}
	var f *mat.Dense
	err := x.Batches(ctx, func(first int, b *linearize.Batch) error {
		c := b.Outputs()
		if f == nil {
			f = mat.NewDense(n, c, nil)
		}
		step := make([]float64, b.Len()*c)
		b.MulVecTo(step, move)
		for i := range b.Len() {
			floats.AddTo(f.RawRowView(first+i), b.F.RawRowView(i), step[i*c:(i+1)*c])
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if f == nil {
		return nil, ErrNoExamples
	}
	return NewSites(y, f)
}
