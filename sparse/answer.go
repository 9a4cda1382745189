package sparse

import (
	"context"
	"errors"
	"math"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
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
