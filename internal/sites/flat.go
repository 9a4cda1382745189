// Package sites holds gp.Sites as plain slices, for passes over the examples.
package sites

import (
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
)

// Flat are gp.Sites as plain slices, example by example.
type Flat struct {
	C            int
	F, R         []float64 // N·C
	Lambda, Root []float64 // N·C·C
}

// New checks that s belongs to n examples with c outputs and is finite.
func New(s *gp.Sites, n, c int) (Flat, error) {
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
	out := Flat{C: c, F: dense.Contiguous(s.F), R: dense.Contiguous(s.Residual), Lambda: dense.Contiguous(s.Lambda), Root: dense.Contiguous(s.Root)}
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

// Slice returns the sites of examples [lo, hi).
func (s Flat) Slice(lo, hi int) Flat {
	c := s.C
	return Flat{C: c, F: s.F[lo*c : hi*c], R: s.R[lo*c : hi*c], Lambda: s.Lambda[lo*c*c : hi*c*c], Root: s.Root[lo*c*c : hi*c*c]}
}

// Block returns the C×C block of example i.
func (s Flat) Block(blocks []float64, i int) []float64 {
	return blocks[i*s.C*s.C : (i+1)*s.C*s.C]
}

// PseudoTargets writes b = r + Λ(f − m) (E5).
func (s Flat) PseudoTargets(dst, prior []float64) {
	for i := range dst {
		n := i / s.C
		row := s.Lambda[i*s.C : (i+1)*s.C]
		dst[i] = s.R[i]
		for j, v := range row {
			dst[i] += v * (s.F[n*s.C+j] - prior[n*s.C+j])
		}
	}
}

// Expansion returns rᵀe − ½eᵀΛe of example i, e = m − f: what the site's
// expansion says of the prior mean, less log p(y|f).
func (s Flat) Expansion(i int, prior []float64) float64 {
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

// SubtractLambda writes b − Λq.
func (s Flat) SubtractLambda(dst, b, q []float64) {
	for i := range dst {
		n := i / s.C
		dst[i] = b[i] - floats.Dot(s.Lambda[i*s.C:(i+1)*s.C], q[n*s.C:(n+1)*s.C])
	}
}

// NotFinite names the first NaN or Inf of v, stacked from example first with
// c outputs.
func NotFinite(what string, v []float64, first, c int) error {
	for i, x := range v {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return &gp.NotFiniteError{What: what, Row: first + i/c, Output: i % c, Value: x}
		}
	}
	return nil
}

// NotFiniteRows is notFinite for the rows of m, each of one output.
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
