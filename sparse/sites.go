package sparse

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	fblas "github.com/funcgp/funcgp/internal/blas"
	"github.com/funcgp/funcgp/internal/dense"
)

// sites are gp.Sites as plain slices, example by example.
type sites struct {
	c            int
	f, r         []float64 // N·C
	lambda, root []float64 // N·C·C
}

// newSites checks that s belongs to n examples with c outputs and is finite.
func newSites(s *gp.Sites, n, c int) (sites, error) {
	if s == nil || s.F == nil || s.Residual == nil || s.Lambda == nil || s.Root == nil {
		panic("sparse: the sites of the examples are missing")
	}
	for _, p := range []struct {
		m          *mat.Dense
		rows, cols int
	}{{s.F, n, c}, {s.Residual, n, c}, {s.Lambda, n * c, c}, {s.Root, n * c, c}} {
		if r, k := p.m.Dims(); r != p.rows || k != p.cols {
			panic("sparse: sites and examples differ in size")
		}
	}
	out := sites{c: c, f: dense.Contiguous(s.F), r: dense.Contiguous(s.Residual), lambda: dense.Contiguous(s.Lambda), root: dense.Contiguous(s.Root)}
	if err := notFinite("function value", out.f, 0, c); err != nil {
		return out, err
	}
	if err := notFinite("residual", out.r, 0, c); err != nil {
		return out, err
	}
	if err := notFiniteRows("Λ", s.Lambda, 0, c); err != nil {
		return out, err
	}
	return out, notFiniteRows("root of Λ", s.Root, 0, c)
}

// slice returns the sites of examples [lo, hi).
func (s sites) slice(lo, hi int) sites {
	c := s.c
	return sites{c: c, f: s.f[lo*c : hi*c], r: s.r[lo*c : hi*c], lambda: s.lambda[lo*c*c : hi*c*c], root: s.root[lo*c*c : hi*c*c]}
}

// block returns the C×C block of example i.
func (s sites) block(blocks []float64, i int) []float64 {
	return blocks[i*s.c*s.c : (i+1)*s.c*s.c]
}

// pseudoTargets writes b = r + Λ(f − m) (E5).
func (s sites) pseudoTargets(dst, prior []float64) {
	for i := range dst {
		n := i / s.c
		row := s.lambda[i*s.c : (i+1)*s.c]
		dst[i] = s.r[i]
		for j, v := range row {
			dst[i] += v * (s.f[n*s.c+j] - prior[n*s.c+j])
		}
	}
}

// expansion returns rᵀe − ½eᵀΛe of example i, e = m − f: what the site's
// expansion says of the prior mean, less log p(y|f).
func (s sites) expansion(i int, prior []float64) float64 {
	c, sum := s.c, 0.0
	for a := range c {
		e := prior[i*c+a] - s.f[i*c+a]
		le := 0.0
		for j, v := range s.lambda[(i*c+a)*c : (i*c+a+1)*c] {
			le += v * (prior[i*c+j] - s.f[i*c+j])
		}
		sum += e * (s.r[i*c+a] - le/2)
	}
	return sum
}

// mulTransRoot writes Rᵀφ for one example: dst and phi have a row an output.
func mulTransRoot(dst, phi blas64.General, root []float64) {
	c := dst.Rows
	for j := range c {
		row := dst.Data[j*dst.Stride:][:dst.Cols]
		clear(row)
		for a := range c {
			if v := root[a*c+j]; v != 0 {
				floats.AddScaled(row, v, phi.Data[a*phi.Stride:][:phi.Cols])
			}
		}
	}
}

// residualTo writes D = k − φφᵀ of one example; k is C×C.
func residualTo(d, k []float64, phi blas64.General) {
	c := phi.Rows
	for a := range c {
		pa := phi.Data[a*phi.Stride:][:phi.Cols]
		for b := range a + 1 {
			v := k[a*c+b] - floats.Dot(pa, phi.Data[b*phi.Stride:][:phi.Cols])
			d[a*c+b], d[b*c+a] = v, v
		}
	}
}

// A corrected site has the residual D of its example as noise of its own
// (E13): Λ̃ = R(I+RᵀDR)⁻¹Rᵀ with root R̃, and b̃ = (I+ΛD)⁻¹b.
type corrected struct {
	c              int
	d, root, b     []float64 // D, R̃, b̃
	logDet         float64   // log det(I + RᵀDR)
	quad           float64   // bᵀDb̃
	g, rd, scratch []float64
}

func newCorrected(c int) *corrected {
	v := make([]float64, 5*c*c+2*c)
	return &corrected{c: c, d: v[:c*c], root: v[c*c : 2*c*c], g: v[2*c*c : 3*c*c], rd: v[3*c*c : 4*c*c],
		b: v[5*c*c : 5*c*c+c], scratch: v[5*c*c+c:]}
}

// set computes the site from R and b; s.d must hold D.
func (s *corrected) set(root, b []float64) error {
	c := s.c
	r, d, g := general(c, c, root), general(c, c, s.d), general(c, c, s.g)
	// G Gᵀ = I + RᵀDR
	rd := general(c, c, s.rd)
	fblas.Gemm1(blas.NoTrans, blas.NoTrans, 1, d, r, 0, rd)
	fblas.Gemm1(blas.Trans, blas.NoTrans, 1, r, rd, 0, g)
	for i := range c {
		g.Data[i*c+i]++
	}
	l, ok := fblas.Potrf1(blas64.Symmetric{Uplo: blas.Lower, N: c, Stride: g.Stride, Data: g.Data})
	if !ok {
		return errNotResidual
	}
	s.logDet = 0
	for i := range c {
		s.logDet += 2 * math.Log(l.Data[i*l.Stride+i])
	}
	// R̃ = R G⁻ᵀ
	copy(s.root, root)
	to := general(c, c, s.root)
	fblas.Trsm1(blas.Right, blas.Trans, 1, l, to)
	// b̃ = b − R̃R̃ᵀDb
	db := s.scratch
	for i := range c {
		db[i] = floats.Dot(s.d[i*c:(i+1)*c], b)
	}
	copy(s.b, b)
	for j := range c {
		z := 0.0
		for a := range c {
			z += s.root[a*c+j] * db[a]
		}
		for a := range c {
			s.b[a] -= s.root[a*c+j] * z
		}
	}
	// bᵀD b̃
	s.quad = floats.Dot(db, s.b)
	return nil
}

// dual writes α = b̃ − Λ̃q.
func (s *corrected) dual(alpha, q []float64) {
	c := s.c
	copy(alpha, s.b)
	for j := range c {
		z := 0.0
		for a := range c {
			z += s.root[a*c+j] * q[a]
		}
		for a := range c {
			alpha[a] -= s.root[a*c+j] * z
		}
	}
}
