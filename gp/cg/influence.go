package cg

import (
	"context"
	"errors"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/linearize"
)

// InfluenceTo implements gp.Dual. h is the covariance of PredictTo, and q comes
// from h by gp.RemovalFrom. Where rounding has made a variance negative, h and q
// of the example are NaN.
func (p *Posterior) InfluenceTo(ctx context.Context, h, q *mat.Dense, rows []int, x *linearize.Batch) error {
	t, c := p.checkInputs(x)
	if t != len(rows) {
		panic("cg: rows and examples differ in number")
	}
	dense.SizeTo(h, t*c, c)
	dense.SizeTo(q, t, c)
	if t == 0 {
		return nil
	}
	if err := p.selfTo(ctx, h, x); err != nil {
		return err
	}
	prior := mat.NewDense(t*c, c, nil)
	p.data.k.DiagTo(prior, x)
	return par.Do(ctx, p.o.Workers, t, func(i int) error {
		block := func(m *mat.Dense, i int) *mat.Dense { return dense.Slice(m, i*c, (i+1)*c) }
		gp.RemovalFrom(q.RawRowView(i), block(h, i), block(p.sites.Root, rows[i]), block(prior, i), p.sites.Residual.RawRowView(rows[i]))
		return nil
	})
}

// selfTo writes the covariance of each example of x, and NaN where rounding has
// made a variance negative. If there is such an example, selfTo repeats its work
// one by one to find it.
func (p *Posterior) selfTo(ctx context.Context, h *mat.Dense, x *linearize.Batch) error {
	var negative *gp.NegativeVarianceError
	err := p.PredictTo(ctx, nil, h, x)
	if !errors.As(err, &negative) {
		return err
	}
	if x.Len() == 1 {
		h.Apply(func(_, _ int, _ float64) float64 { return math.NaN() }, h)
		return nil
	}
	for i := range x.Len() {
		if err := p.selfTo(ctx, dense.Slice(h, i*p.data.c, (i+1)*p.data.c), x.Slice(i, i+1)); err != nil {
			return err
		}
	}
	return nil
}
