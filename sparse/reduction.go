package sparse

import (
	"context"
	"errors"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/linearize"
)

var (
	_ gp.Reducible = (*Projected)(nil)
	_ gp.Reducible = (*Posterior)(nil)
)

// ErrSingular says that the kernel of the inducing examples is singular to working precision, so that a posterior
// cannot be written as a product with it.
var ErrSingular = errors.New("the kernel of the inducing examples is singular to working precision; take fewer of them")

// Reduction implements gp.Reducible, without terms. The rows are the inducing examples. It fails with ErrSingular.
func (p *Projected) Reduction(ctx context.Context, _ bool) (*gp.Reduction, error) {
	s, ok, err := p.reduction(ctx)
	if err != nil {
		return nil, err
	}
	if !ok && p.b.g.Rows > 0 {
		return nil, ErrSingular
	}
	if !ok {
		if s, err = p.eigenRoot(ctx); err != nil {
			return nil, err
		}
	}
	return &gp.Reduction{Rows: p.b.z.Batch, S: mat.DenseCopyOf(dense.View(s)), Mean: p.v}, nil
}

// eigenRoot returns S with SSᵀ = K_ZZ⁻¹ − A⁻¹ where ΦΛΦᵀ is singular: L⁻ᵀQ√D for the explained part
// H = I − A'⁻¹ = QDQᵀ.
func (p *Projected) eigenRoot(ctx context.Context) (blas64.General, error) {
	h, err := p.explained(ctx)
	if err != nil {
		return h, err
	}
	n := h.Rows
	symmetric := mat.NewSymDense(n, nil)
	for i := range n {
		for j := i; j < n; j++ {
			symmetric.SetSym(i, j, (h.Data[i*h.Stride+j]+h.Data[j*h.Stride+i])/2)
		}
	}
	var eigen mat.EigenSym
	if !eigen.Factorize(symmetric, true) {
		return h, ErrSingular
	}
	var q mat.Dense
	eigen.VectorsTo(&q)
	rows := dense.New(n, n) // √D Qᵀ
	for i, v := range eigen.Values(nil) {
		floats.ScaleTo(dense.Row(rows, i), math.Sqrt(max(v, 0)), mat.Col(nil, i, &q))
	}
	// The weights of features are those of kernels times L⁻ᵀ.
	w, err := p.b.weights(ctx, rows)
	if err != nil {
		return w, err
	}
	s := dense.New(w.Cols, w.Rows)
	dense.TransposeTo(s, w)
	return s, nil
}

// Reduction implements gp.Reducible. The terms take one pass over the training examples.
func (p *Posterior) Reduction(ctx context.Context, terms bool) (*gp.Reduction, error) {
	r, err := p.Projected.Reduction(ctx, false)
	if err != nil || !terms {
		return r, err
	}
	c := p.b.c
	r.Terms = mat.NewDense(p.b.rows(), p.x.Len(), nil)
	f := newFeaturesOf(p.b, linearize.Tile(c)*c)
	return r, linearize.Rebatch(p.x, linearize.Tile(c)).Batches(ctx, func(first int, x *linearize.Batch) error {
		phi, err := f.of(ctx, chunk{first: first, x: x, rows: x.Len() * c})
		if err != nil {
			return err
		}
		if err := p.full(ctx, phi); err != nil {
			return err
		}
		// Rows k_iZ A⁻¹, of which C(x,x_i) is the product with k (E13)
		w, err := p.b.weights(ctx, phi)
		if err != nil {
			return err
		}
		for i := range w.Rows {
			b := p.pseudo[first*c+i]
			for j, v := range dense.Row(w, i) {
				r.Terms.Set(j, first+i/c, r.Terms.At(j, first+i/c)+v*b)
			}
		}
		return nil
	})
}

// A reduction is an upper triangle S with SSᵀ = K_ZZ⁻¹ − A⁻¹, by which the data reduce prior covariances:
// cov = k_** − (k_*Z S)(k_*Z S)ᵀ (E13). One product with a triangle takes the place of a solve and a product. Zeros are
// stored below the diagonal.
type reduction struct {
	s  blas64.General
	ok bool // whether there is an S to working precision
}

// reduction returns S, which p keeps. It reports false where K_ZZ or ΦΛΦᵀ is singular to working precision. It fails
// with ctx.Err() only.
func (p *Projected) reduction(ctx context.Context) (s blas64.General, ok bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.r == nil {
		var r reduction
		if p.b.g.Rows == 0 {
			if r.s, r.ok, err = p.reduce(ctx); err != nil {
				return s, false, err
			}
		}
		p.r = &r
	}
	return p.r.s, p.r.ok, nil
}

// reduce computes S = L⁻ᵀRF⁻ᵀ, where ΦΛΦᵀ = RRᵀ with R upper triangular and I + RᵀR = FFᵀ with F lower triangular: the
// explained part H = I − A'⁻¹ is R(I + RᵀR)⁻¹Rᵀ, with the digits of small weights.
func (p *Projected) reduce(ctx context.Context) (s blas64.General, ok bool, err error) {
	s, ok, err = upperRoot(ctx, p.sums.symmetric())
	if err != nil || !ok {
		return s, ok, err
	}
	n := s.Rows
	f := dense.New(n, n)
	for i := range n {
		f.Data[i*n+i] = 1
	}
	for i := range par.Tiles(n, explainedPanel) {
		lo, hi := par.Bounds(i, n, explainedPanel)
		rows := dense.Cols(dense.Rows(s, lo, hi), lo, n) // left of lo are zeros
		rest := blas64.Symmetric{Uplo: blas.Lower, N: n - lo, Stride: n, Data: f.Data[lo*n+lo:]}
		if err := dense.SyrkContext(ctx, blas.Trans, 1, rows, 1, rest); err != nil {
			return s, false, err
		}
	}
	t, ok, err := dense.PotrfContext(ctx, blas64.Symmetric{Uplo: blas.Lower, N: n, Stride: n, Data: f.Data})
	if err != nil || !ok {
		return s, ok, err
	}
	// Rows from lo on of RF⁻ᵀ have zeros left of lo, and columns up to hi of S zeros below hi.
	for i := range par.Tiles(n, explainedPanel) {
		lo, hi := par.Bounds(i, n, explainedPanel)
		if err := dense.TrsmContext(ctx, blas.Right, blas.Trans, 1, part(t, lo, n), dense.Cols(dense.Rows(s, lo, hi), lo, n)); err != nil {
			return s, false, err
		}
	}
	for i := range par.Tiles(n, explainedPanel) {
		lo, hi := par.Bounds(i, n, explainedPanel)
		if err := dense.TrsmContext(ctx, blas.Left, blas.Trans, 1, part(p.b.l, 0, hi), dense.Cols(dense.Rows(s, 0, hi), lo, hi)); err != nil {
			return s, false, err
		}
	}
	return s, true, nil
}

// part returns rows and columns [lo, hi) of t.
func part(t blas64.Triangular, lo, hi int) blas64.Triangular {
	t.Data, t.N = t.Data[lo*t.Stride+lo:], hi-lo
	return t
}

// upperRoot returns the upper triangle R with RRᵀ = a, which is the Cholesky factor of a with rows and columns in
// reverse order. It reports false where a is singular to working precision.
func upperRoot(ctx context.Context, a blas64.Symmetric) (r blas64.General, ok bool, err error) {
	n := a.N
	r = dense.New(n, n)
	for i := range n {
		for j, v := range a.Data[i*a.Stride+i : i*a.Stride+n] {
			r.Data[(n-1-i)*n+n-1-i-j] = v
		}
	}
	if _, ok, err = dense.PotrfContext(ctx, blas64.Symmetric{Uplo: blas.Lower, N: n, Stride: n, Data: r.Data}); err != nil || !ok {
		return r, ok, err
	}
	for i, j := 0, len(r.Data)-1; i < j; i, j = i+1, j-1 {
		r.Data[i], r.Data[j] = r.Data[j], r.Data[i]
	}
	return r, true, nil
}
