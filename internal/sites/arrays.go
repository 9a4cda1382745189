// Package sites has what posteriors outside package gp share: gp.Sites as plain slices for passes over the examples,
// and checks of numbers. A site is one example's Gaussian approximation of its
// likelihood, with residual r and curvature Λ at the function value f.
package sites

import (
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
)

// Arrays has gp.Sites as plain slices, example by example.
type Arrays struct {
	C            int
	F, R         []float64 // function values and residuals, N·C
	Lambda, Root []float64 // Λ and R with Λ = R Rᵀ, N·C·C
}

// Of returns s as plain slices. They share memory with s where its matrices are contiguous.
func Of(s *gp.Sites) Arrays {
	_, c := s.F.Dims()
	return Arrays{C: c, F: dense.Contiguous(s.F), R: dense.Contiguous(s.Residual), Lambda: dense.Contiguous(s.Lambda), Root: dense.Contiguous(s.Root)}
}

// New is Of for sites from a caller. It panics where they do not fit n examples with c outputs. It returns a
// *gp.NotFiniteError for a NaN or Inf.
func New(s *gp.Sites, n, c int) (Arrays, error) {
	if s == nil || s.F == nil || s.Residual == nil || s.Lambda == nil || s.Root == nil {
		panic("sites: the sites of the examples are missing")
	}
	for _, p := range []struct {
		m          *mat.Dense
		rows, cols int
	}{{s.F, n, c}, {s.Residual, n, c}, {s.Lambda, n * c, c}, {s.Root, n * c, c}} {
		if r, k := p.m.Dims(); r != p.rows || k != p.cols {
			panic("sites: sites and examples differ in size")
		}
	}
	out := Of(s)
	if err := NotFinite("function value", out.F, 0, c); err != nil {
		return out, err
	}
	if err := NotFinite("residual", out.R, 0, c); err != nil {
		return out, err
	}
	if err := NotFiniteRows("Λ", s.Lambda, 0, c); err != nil {
		return out, err
	}
	return out, NotFiniteRows("root of Λ", s.Root, 0, c)
}

// Slice returns the sites of examples lo to hi−1.
func (s Arrays) Slice(lo, hi int) Arrays {
	c := s.C
	return Arrays{C: c, F: s.F[lo*c : hi*c], R: s.R[lo*c : hi*c], Lambda: s.Lambda[lo*c*c : hi*c*c], Root: s.Root[lo*c*c : hi*c*c]}
}

// Block returns the C×C block of example i in blocks, N·C·C numbers such as s.Lambda.
func (s Arrays) Block(blocks []float64, i int) []float64 {
	return blocks[i*s.C*s.C : (i+1)*s.C*s.C]
}

// PseudoTargets writes b = r + Λ(f − m) (E5) to dst, N·C numbers, for the prior mean m = prior.
func (s Arrays) PseudoTargets(dst, prior []float64) {
	for i := range dst {
		n := i / s.C
		row := s.Lambda[i*s.C : (i+1)*s.C]
		dst[i] = s.R[i]
		for j, v := range row {
			dst[i] += v * (s.F[n*s.C+j] - prior[n*s.C+j])
		}
	}
}

// Expansion returns rᵀe − ½eᵀΛe with e = m − f for example i. To second order this is the log likelihood at the
// prior mean m less the log likelihood at f.
func (s Arrays) Expansion(i int, prior []float64) float64 {
	c, sum := s.C, 0.0
	for a := range c {
		e := prior[i*c+a] - s.F[i*c+a]
		le := 0.0
		for j, v := range s.Lambda[(i*c+a)*c : (i*c+a+1)*c] {
			le += v * (prior[i*c+j] - s.F[i*c+j])
		}
		sum += e * (s.R[i*c+a] - le/2)
	}
	return sum
}

// SubtractLambda writes b − Λq to dst, N·C numbers.
func (s Arrays) SubtractLambda(dst, b, q []float64) {
	for i := range dst {
		n := i / s.C
		dst[i] = b[i] - floats.Dot(s.Lambda[i*s.C:(i+1)*s.C], q[n*s.C:(n+1)*s.C])
	}
}

// NotFinite returns a *gp.NotFiniteError for the first NaN or Inf in v, which has c numbers for each example from
// example first on.
func NotFinite(what string, v []float64, first, c int) error {
	for i, x := range v {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return &gp.NotFiniteError{What: what, Row: first + i/c, Output: i % c, Value: x}
		}
	}
	return nil
}

// NotFiniteRows is NotFinite for a matrix with one row for each output of each example.
func NotFiniteRows(what string, m *mat.Dense, first, c int) error {
	rows, _ := m.Dims()
	for i := range rows {
		for _, x := range m.RawRowView(i) {
			if math.IsNaN(x) || math.IsInf(x, 0) {
				return &gp.NotFiniteError{What: what, Row: first + i/c, Output: i % c, Value: x}
			}
		}
	}
	return nil
}

// MulBlocks returns the product of the C×C blocks of all examples, N·C×C such as Λ, and v, N·C numbers.
func MulBlocks(blocks *mat.Dense, v []float64) []float64 {
	n, c := blocks.Dims()
	out := make([]float64, n)
	for i := range n {
		at := i / c * c
		out[i] = floats.Dot(blocks.RawRowView(i), v[at:at+c])
	}
	return out
}

// PrecisionError returns the error for a precision I + J̃ᵀΛJ̃ of p parameters without a Cholesky factor. In exact
// arithmetic there is one, so a number overflowed.
func PrecisionError(p int) error {
	return &gp.NotPDError{What: "the posterior precision of the parameters", N: p,
		Reason: "the Jacobian, Λ or the prior variances are too large for float64; scale the inputs or raise the prior precision"}
}
