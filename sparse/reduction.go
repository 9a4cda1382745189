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
	if p.b.g.Rows > 0 {
		return nil, ErrSingular
	}
	s, err := p.root(ctx, false)
	if err != nil {
		return nil, err
	}
	return &gp.Reduction{Rows: p.b.z.Batch, S: mat.DenseCopyOf(dense.View(s.General)), Mean: p.v}, nil
}

// Reduction implements gp.Reducible. The terms take one pass over the training examples.
func (p *Posterior) Reduction(ctx context.Context, terms bool) (*gp.Reduction, error) {
	r, err := p.Projected.Reduction(ctx, false)
	if err != nil || !terms {
		return r, err
	}
	c := p.b.c
	r.Terms = mat.NewDense(p.b.rows(), p.Data().Len(), nil)
	f := newFeaturesOf(p.b, linearize.Tile(c)*c)
	return r, linearize.Rebatch(p.Data(), linearize.Tile(c)).Batches(ctx, func(first int, x *linearize.Batch) error {
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
			b := p.PseudoTargets()[first*c+i]
			for j, v := range dense.Row(w, i) {
				r.Terms.Set(j, first+i/c, r.Terms.At(j, first+i/c)+v*b)
			}
		}
		return nil
	})
}

// A root is T with TTᵀ = I − A'⁻¹, or S = GT with SSᵀ = K_ZZ⁻¹ − A⁻¹, by which the data reduce prior covariances (E13):
//
//	cov = k_** − (φT)(φT)ᵀ = k_** − (k_*Z S)(k_*Z S)ᵀ
//
// One product takes the place of a solve and a product.
type root struct {
	blas64.General
	upper bool // zeros are stored below the diagonal
}

// times returns the product of rows and r. It fails with ctx.Err() only.
func (r *root) times(ctx context.Context, rows blas64.General) (blas64.General, error) {
	out := dense.New(rows.Rows, r.Cols)
	if r.upper {
		return out, dense.GemmUpperContext(ctx, rows, r.General, out)
	}
	return out, dense.GemmContext(ctx, blas.NoTrans, blas.NoTrans, 1, rows, r.General, 0, out)
}

// root returns T if features is true, and S otherwise. p keeps both once computed. It fails with ctx.Err() only.
func (p *Projected) root(ctx context.Context, features bool) (*root, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	memo := &p.ofKernel
	if features {
		memo = &p.ofFeatures
	}
	if *memo != nil {
		return *memo, nil
	}
	r, err := p.explained(ctx)
	if err != nil {
		return nil, err
	}
	switch n := r.Cols; {
	case features:
	case p.b.g.Rows > 0:
		s := dense.New(p.b.rows(), n)
		if err := dense.GemmContext(ctx, blas.NoTrans, blas.NoTrans, 1, p.b.g, r.General, 0, s); err != nil {
			return nil, err
		}
		r = &root{General: s}
	default:
		// S = L⁻ᵀT, where columns up to hi of a triangle have zeros below hi.
		for i := range par.Tiles(n, rootPanel) {
			lo, hi := par.Bounds(i, n, rootPanel)
			end := r.Rows
			if r.upper {
				end = hi
			}
			if err := dense.TrsmContext(ctx, blas.Left, blas.Trans, 1, part(p.b.l, 0, end), dense.Cols(dense.Rows(r.General, 0, end), lo, hi)); err != nil {
				return nil, err
			}
		}
	}
	*memo = r
	return r, nil
}

// rootPanel is how many rows or columns of a root are computed at a time.
const rootPanel = 256

// explained returns T = RF⁻ᵀ, where ΦΛΦᵀ = RRᵀ and I + RᵀR = FFᵀ with F lower triangular: I − A'⁻¹ is
// R(I + RᵀR)⁻¹Rᵀ. Where K_ZZ is nearly singular, features of small variance carry the rounding of k_Z. Their rows of T are
// small and keep their digits, which cancel in I − A'⁻¹.
func (p *Projected) explained(ctx context.Context) (*root, error) {
	s, upper, err := upperRoot(ctx, p.sums.symmetric())
	if err == nil && !upper {
		s, err = pivotedRoot(ctx, p.sums.symmetric())
	}
	if err != nil {
		return nil, err
	}
	r := &root{s, upper}
	// If R is upper triangular, so is RF⁻ᵀ: the rows of either from lo on are zero left of column lo.
	each := func(do func(from int, rows blas64.General) error) error {
		for i := range par.Tiles(r.Rows, rootPanel) {
			lo, hi := par.Bounds(i, r.Rows, rootPanel)
			from := 0
			if upper {
				from = lo
			}
			if err := do(from, dense.Cols(dense.Rows(r.General, lo, hi), from, r.Cols)); err != nil {
				return err
			}
		}
		return nil
	}
	n := r.Cols
	f := dense.New(n, n)
	for i := range n {
		f.Data[i*n+i] = 1
	}
	err = each(func(from int, rows blas64.General) error {
		rest := blas64.Symmetric{Uplo: blas.Lower, N: n - from, Stride: n, Data: f.Data[from*n+from:]}
		return dense.SyrkContext(ctx, blas.Trans, 1, rows, 1, rest)
	})
	if err != nil {
		return nil, err
	}
	t, _, err := dense.PotrfContext(ctx, blas64.Symmetric{Uplo: blas.Lower, N: n, Stride: n, Data: f.Data})
	if err != nil {
		return nil, err
	}
	return r, each(func(from int, rows blas64.General) error {
		return dense.TrsmContext(ctx, blas.Right, blas.Trans, 1, part(t, from, n), rows)
	})
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

// pivotedRoot returns R with RRᵀ = a by pivoted Cholesky, with a column for each dimension of a, where a is singular to
// working precision. It factors a with unit diagonal, so that each row has errors relative to its own length.
func pivotedRoot(ctx context.Context, a blas64.Symmetric) (blas64.General, error) {
	n := a.N
	scale, c, piv := make([]float64, n), dense.New(n, n), make([]int, n)
	for i := range n {
		scale[i] = math.Sqrt(max(a.Data[i*a.Stride+i], 0))
		for j := range i + 1 {
			if s := scale[i] * scale[j]; s > 0 {
				c.Data[i*n+j] = a.Data[j*a.Stride+i] / s
			}
		}
	}
	_, rank, err := dense.PstrfContext(ctx, dense.Lower(c), piv, -1)
	r := dense.New(n, max(1, rank))
	for i, to := range piv {
		floats.ScaleTo(dense.Row(r, to)[:min(i+1, rank)], scale[to], c.Data[i*n:][:min(i+1, rank)])
	}
	return r, err
}
