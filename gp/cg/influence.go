package cg

import (
	"context"
	"errors"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/internal/sites"
	"github.com/funcgp/funcgp/linearize"
)

// InfluenceTo implements gp.Dual. h is the covariance of PredictTo, and q comes
// from h by gp.RemovalFrom. Where rounding has made a variance negative, h and q
// of the example are NaN.
func (p *Posterior) InfluenceTo(ctx context.Context, h, q *mat.Dense, rows []int, x *linearize.Batch) error {
	t, c := p.data.set.CheckRows(rows, x)
	dense.SizeTo(h, t*c, c)
	dense.SizeTo(q, t, c)
	if t == 0 {
		return nil
	}
	if err := p.selfTo(ctx, h, x, nil); err != nil {
		return err
	}
	prior := mat.NewDense(t*c, c, nil)
	p.data.k.DiagTo(prior, x)
	return par.Do(ctx, t, func(i int) error {
		block := func(m *mat.Dense, i int) *mat.Dense { return dense.Slice(m, i*c, (i+1)*c) }
		gp.RemovalFrom(q.RawRowView(i), block(h, i), block(p.sites.Root, rows[i]), block(prior, i), p.ownResidual(rows[i]))
		return nil
	})
}

// LeaveOneOutTo implements gp.Dual (E17). It solves for each output of an example with
// the rows and columns of B that belong to the other examples, so the covariance
// keeps its digits where the example nearly fixes the function by itself, and is
// too large by no more than that of PredictTo. As δα = −R B⁻¹ρ, the mean is off by no
// more than MeanError standard deviations of the function value. Where rounding has made a variance
// negative, the moments of the example are NaN.
func (p *Posterior) LeaveOneOutTo(ctx context.Context, mean, cov *mat.Dense, rows []int, x *linearize.Batch) error {
	t, c := p.data.set.CheckRows(rows, x)
	dense.SizeTo(mean, t, c)
	dense.SizeTo(cov, t*c, c)
	if err := ctx.Err(); err != nil {
		return err
	}
	if t == 0 || mean == nil && cov == nil {
		return nil
	}
	if cov == nil {
		cov = mat.NewDense(t*c, c, nil)
	}
	if err := p.selfTo(ctx, cov, x, rows); err != nil || mean == nil {
		return err
	}
	if err := p.meanTo(mean, x); err != nil {
		return err
	}
	var r []float64
	for _, row := range rows {
		r = append(r, p.ownResidual(row)...)
	}
	sites.LeaveOut(mean, cov, r)
	return nil
}

// ownResidual is what a step that leaves out the example in this row of Data
// starts from: α where the mean is a sum over training examples, and the residual of
// the site otherwise.
func (p *Posterior) ownResidual(row int) []float64 {
	c := p.data.c
	if p.hasDualMean() {
		return p.alpha[row*c : (row+1)*c]
	}
	return p.local.R[row*c : (row+1)*c]
}

// selfTo writes the covariance of each example of x, without the training examples
// in without if that is not nil, and NaN where rounding has made a variance
// negative. If there is such an example, selfTo repeats its work one by one to find
// it.
func (p *Posterior) selfTo(ctx context.Context, h *mat.Dense, x *linearize.Batch, without []int) error {
	t, c := x.Len(), p.data.c
	if err := sites.NotFiniteRows("network output", x.F, 0, 1); err != nil {
		return err
	}
	var negative *gp.NegativeVarianceError
	err := p.covarianceTo(ctx, h, &Bounds{Variance: mat.NewDense(t, c, nil)}, x, without)
	if !errors.As(err, &negative) {
		return err
	}
	if t == 1 {
		h.Apply(func(_, _ int, _ float64) float64 { return math.NaN() }, h)
		return nil
	}
	for i := range t {
		var one []int
		if without != nil {
			one = without[i : i+1]
		}
		if err := p.selfTo(ctx, dense.Slice(h, i*c, (i+1)*c), x.Slice(i, i+1), one); err != nil {
			return err
		}
	}
	return nil
}
