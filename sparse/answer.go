package sparse

import (
	"context"
	"errors"

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
	if !ok {
		return nil, ErrSingular
	}
	return &gp.Reduction{Rows: p.b.z.Batch, S: mat.DenseCopyOf(dense.View(s)), Mean: p.v}, nil
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
