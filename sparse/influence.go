package sparse

import (
	"context"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/linearize"
)

// InfluenceTo implements gp.Dual, with the h of SelfTo. With FITC it uses Λ̃_i in
// the place of Λ_i.
func (p *Posterior) InfluenceTo(ctx context.Context, h, q *mat.Dense, rows []int, x *linearize.Batch) error {
	t, c := p.checkInputs(x)
	if t != len(rows) {
		panic("sparse: rows and examples differ in number")
	}
	dense.SizeTo(h, t*c, c)
	dense.SizeTo(q, t, c)
	if t == 0 {
		return nil
	}
	if err := p.SelfTo(ctx, h, x); err != nil {
		return err
	}
	roots, prior := mat.NewDense(t*c, c, nil), mat.NewDense(t*c, c, nil)
	p.b.k.DiagTo(prior, x)
	if err := p.rootTo(ctx, roots, rows, x, prior); err != nil {
		return err
	}
	return par.Do(ctx, p.o.Workers, t, func(i int) error {
		block := func(m *mat.Dense) *mat.Dense { return dense.Slice(m, i*c, (i+1)*c) }
		gp.RemovalFrom(q.RawRowView(i), block(h), block(roots), block(prior), p.sites.Residual.RawRowView(rows[i]))
		return nil
	})
}

// rootTo writes the roots R̃_i, n·C×C, of the training examples x, which are in the
// given rows of Data. diag is their prior covariance, n·C×C. Λ̃_i = R̃_iR̃_iᵀ is Λ_i,
// or the FITC one (E13).
func (p *Posterior) rootTo(ctx context.Context, dst *mat.Dense, rows []int, x *linearize.Batch, diag *mat.Dense) error {
	t, c := len(rows), p.b.c
	put := func(i int, root []float64) {
		for a := range c {
			dst.SetRow(i*c+a, root[a*c:(a+1)*c])
		}
	}
	if !p.sums.spec.fitc {
		for i, r := range rows {
			put(i, p.local.Block(p.local.Root, r))
		}
		return nil
	}
	phi, err := newFeaturesOf(p.b, t*c).of(ctx, chunk{x: x, rows: t * c})
	if err != nil {
		return err
	}
	s := newFITCSite(c)
	for i, r := range rows {
		residualTo(s.d, dense.Contiguous(dense.Slice(diag, i*c, (i+1)*c)), dense.Rows(phi, i*c, (i+1)*c))
		if err := s.set(p.local.Block(p.local.Root, r), make([]float64, c)); err != nil {
			return err
		}
		put(i, s.root)
	}
	return nil
}
