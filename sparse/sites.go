package sparse

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"

	"github.com/funcgp/funcgp/internal/dense"
)

// mulTransRoot writes Rᵀφ for one example; dst and phi have one row for each output.
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

// A fitcSite is the site of an example under FITC, whose residual D is independent
// noise (E13): Λ̃ = R(I+RᵀDR)⁻¹Rᵀ with root R̃, and b̃ = (I+ΛD)⁻¹b.
type fitcSite struct {
	c              int
	d, root, b     []float64 // D, R̃, b̃
	logDet         float64   // log det(I + RᵀDR)
	quad           float64   // bᵀDb̃
	g, rd, scratch []float64
}

func newFITCSite(c int) *fitcSite {
	v := make([]float64, 5*c*c+2*c)
	return &fitcSite{c: c, d: v[:c*c], root: v[c*c : 2*c*c], g: v[2*c*c : 3*c*c], rd: v[3*c*c : 4*c*c],
		b: v[5*c*c : 5*c*c+c], scratch: v[5*c*c+c:]}
}

// set computes the site from R and b, where s.d holds D.
func (s *fitcSite) set(root, b []float64) error {
	c := s.c
	r, d, g := dense.In(root, c, c), dense.In(s.d, c, c), dense.In(s.g, c, c)
	// G Gᵀ = I + RᵀDR
	rd := dense.In(s.rd, c, c)
	dense.Gemm1(blas.NoTrans, blas.NoTrans, 1, d, r, 0, rd)
	dense.Gemm1(blas.Trans, blas.NoTrans, 1, r, rd, 0, g)
	for i := range c {
		g.Data[i*c+i]++
	}
	l, ok := dense.Potrf1(blas64.Symmetric{Uplo: blas.Lower, N: c, Stride: g.Stride, Data: g.Data})
	if !ok {
		return errNotResidual
	}
	s.logDet = 0
	for i := range c {
		s.logDet += 2 * math.Log(l.Data[i*l.Stride+i])
	}
	// R̃ = R G⁻ᵀ
	copy(s.root, root)
	to := dense.In(s.root, c, c)
	dense.Trsm1(blas.Right, blas.Trans, 1, l, to)
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
func (s *fitcSite) dual(alpha, q []float64) {
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
