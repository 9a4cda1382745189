package mode

import (
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/internal/sites"
)

// A span is the set of whitened weights z = Vᵀa, where V has k orthonormal rows, with the functions f = m + W a, W
// = J̃Vᵀ. It works in tiles of examples that do not depend on the number of processors.
type span struct {
	y    *gp.Targets
	n, c int
	mean []float64      // m, N·C
	v    blas64.General // k×P, with memory for the most rows
	w    blas64.General // N·C×k, with memory for the most columns
}

// full tells whether there is no room for another direction.
func (s *span) full() bool { return s.w.Cols == s.w.Stride }

// vector returns Vᵀa, P numbers.
func (s *span) vector(a []float64) []float64 {
	z := make([]float64, s.v.Cols)
	for i, t := range a {
		floats.AddScaled(z, t, dense.Row(s.v, i))
	}
	return z
}

// inSpan is the share of a direction outside the span below which that part counts as rounding error.
const inSpan = 1e-10

// spanExamples is the number of examples in a tile.
const spanExamples = 512

// each calls do for each tile, examples lo to hi−1.
func (s *span) each(ctx context.Context, do func(tile, lo, hi int)) error {
	return par.Do(ctx, par.Tiles(s.n, spanExamples), func(t int) error {
		lo, hi := par.Bounds(t, s.n, spanExamples)
		do(t, lo, hi)
		return nil
	})
}

// values returns f of examples lo to hi−1 for the coefficients a.
func (s *span) values(a []float64, lo, hi int) []float64 {
	f := append([]float64(nil), s.mean[lo*s.c:hi*s.c]...)
	if len(a) > 0 {
		dense.Gemv(blas.NoTrans, 1, dense.Rows(s.w, lo*s.c, hi*s.c), dense.Vector(a), 1, dense.Vector(f))
	}
	return f
}

// residuals writes the residuals r at f = m + W a to dst, N·C numbers.
func (s *span) residuals(ctx context.Context, dst, a []float64) error {
	return s.each(ctx, func(_, lo, hi int) {
		f, c := s.values(a, lo, hi), s.c
		for i := lo; i < hi; i++ {
			at := (i - lo) * c
			s.y.Expand(i, dst[i*c:(i+1)*c], nil, nil, f[at:at+c])
		}
	})
}

// An expansion is ℓ as a function of a, to second order.
type expansion struct {
	logLik   float64        // ℓ = Σ log p(y|m + W a)
	gradient []float64      // Wᵀr, k numbers
	g        blas64.General // G = WᵀΛW, k×k, upper triangle
}

// expand returns ℓ at a, with the derivatives if asked for.
func (s *span) expand(ctx context.Context, a []float64, derivatives bool) (*expansion, error) {
	k, c, tiles := s.w.Cols, s.c, par.Tiles(s.n, spanExamples)
	logLik := make([]float64, tiles)
	gradient := make([][]float64, tiles)
	curvature := make([]blas64.Symmetric, tiles)
	err := s.each(ctx, func(t, lo, hi int) {
		f := s.values(a, lo, hi)
		if !derivatives {
			for i := lo; i < hi; i++ {
				at := (i - lo) * c
				logLik[t] += s.y.Expand(i, nil, nil, nil, f[at:at+c])
			}
			return
		}
		w := dense.Rows(s.w, lo*c, hi*c)
		r, root, scaled := make([]float64, len(f)), make([]float64, c*c), dense.New(w.Rows, k)
		for i := lo; i < hi; i++ {
			at := (i - lo) * c
			logLik[t] += s.y.Expand(i, r[at:at+c], nil, root, f[at:at+c])
			// RᵀW
			for j := range c {
				row := dense.Row(scaled, at+j)
				for l := range c {
					if v := root[l*c+j]; v != 0 {
						dense.Axpy(row, v, dense.Row(w, at+l))
					}
				}
			}
		}
		gradient[t] = make([]float64, k)
		dense.Gemv(blas.Trans, 1, w, dense.Vector(r), 0, dense.Vector(gradient[t]))
		curvature[t] = blas64.Symmetric{Uplo: blas.Upper, N: k, Stride: max(1, k), Data: make([]float64, k*k)}
		dense.Syrk1(blas.Trans, 1, scaled, 0, curvature[t])
	})
	if err != nil {
		return nil, err
	}
	x := &expansion{logLik: floats.Sum(logLik)}
	if derivatives {
		x.gradient, x.g = make([]float64, k), dense.New(k, k)
		for t, g := range gradient {
			floats.Add(x.gradient, g)
			floats.Add(x.g.Data, curvature[t].Data)
		}
	}
	return x, nil
}

// shifted returns a function that solves with G + ρI.
func (x *expansion) shifted(rho float64) (func(b []float64) []float64, error) {
	k := len(x.gradient)
	a := blas64.Symmetric{Uplo: blas.Upper, N: k, Stride: max(1, k), Data: append([]float64(nil), x.g.Data...)}
	for i := range k {
		a.Data[i*k+i] += rho
	}
	u, ok := dense.Potrf1(a)
	if !ok {
		return nil, sites.PrecisionError(k)
	}
	return func(b []float64) []float64 {
		v := slices.Clone(b)
		dense.Solve(u, v)
		return v
	}, nil
}

// curvatureTimes returns G a.
func (x *expansion) curvatureTimes(a []float64) []float64 {
	k := len(a)
	out := make([]float64, k)
	dense.Symv(1, blas64.Symmetric{Uplo: blas.Upper, N: k, Stride: max(1, k), Data: x.g.Data}, dense.Vector(a), 0, dense.Vector(out))
	return out
}

// essential returns orthonormal coefficient vectors that span a, b, the last sixth of the directions, and the
// eigenvectors of G with the largest third of the eigenvalues. Conjugate gradients need a and the last directions
// to go on. Without these eigenvectors they would have to find them again.
func (x *expansion) essential(a, b []float64) ([][]float64, error) {
	k := len(a)
	var eig mat.EigenSym
	if !eig.Factorize(mat.NewSymDense(k, x.g.Data), true) {
		return nil, sites.PrecisionError(k)
	}
	var vectors mat.Dense
	eig.VectorsTo(&vectors)
	all := [][]float64{a, b}
	for i := range k / 6 {
		last := make([]float64, k)
		last[k-1-i] = 1
		all = append(all, last)
	}
	for i := range k / 3 {
		all = append(all, mat.Col(nil, k-1-i, &vectors))
	}
	var u [][]float64
	for _, d := range all {
		d = append([]float64(nil), d...)
		whole := floats.Norm(d, 2)
		for range 2 {
			for _, v := range u {
				floats.AddScaled(d, -floats.Dot(v, d), v)
			}
		}
		if norm := floats.Norm(d, 2); norm > math.Sqrt(inSpan)*whole {
			floats.Scale(1/norm, d)
			u = append(u, d)
		}
	}
	return u, nil
}
