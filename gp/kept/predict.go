package kept

import (
	"context"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/sites"
	"github.com/funcgp/funcgp/linearize"
)

// PredictTo implements gp.Latent. The mean takes one product with the Jacobian of x, the
// covariance a solve with the factor of the kept rows for each output.
func (p *Posterior) PredictTo(ctx context.Context, mean, cov *mat.Dense, x *linearize.Batch) error {
	if x.Len() == 0 {
		return nil
	}
	if err := p.thin.PredictTo(ctx, mean, cov, x); err != nil {
		return err
	}
	return p.meanTo(mean, x)
}

// JointTo implements gp.Latent.
func (p *Posterior) JointTo(ctx context.Context, mean, cov *mat.Dense, x *linearize.Batch) error {
	if x.Len() == 0 {
		return nil
	}
	if err := p.thin.JointTo(ctx, mean, cov, x); err != nil {
		return err
	}
	return p.meanTo(mean, x)
}

// meanTo writes m + K_*n α where that is the mean, and leaves f(x;θ*) otherwise.
func (p *Posterior) meanTo(mean *mat.Dense, x *linearize.Batch) error {
	if mean == nil || !p.hasDualMean() {
		return nil
	}
	_, c := mean.Dims()
	m, move := make([]float64, x.Len()*c), make([]float64, x.Len()*c)
	p.kernel.MeanTo(m, x)
	// mean(x*) = m(x*) + K_*n α, K_*n α = J(x*)Σ₀Jᵀα (E6)
	x.MulVecTo(move, p.weights)
	floats.Add(m, move)
	for i, v := range m {
		mean.Set(i/c, i%c, v)
	}
	return sites.NotFinite("predictive mean", m, 0, c)
}

// InfluenceTo implements gp.Dual. The weight of an example is that of the rows which it
// keeps.
func (p *Posterior) InfluenceTo(ctx context.Context, h, q *mat.Dense, rows []int, x *linearize.Batch) error {
	t, c := p.thin.TrainingSet().CheckRows(rows, x)
	if t == 0 {
		dense.SizeTo(h, 0, 0)
		dense.SizeTo(q, 0, 0)
		return ctx.Err()
	}
	return p.thin.InfluenceTo(ctx, h, q, rows, x, dense.View(dense.Of(p.residuals(rows), t, c)))
}

// Downdate takes the training examples at these rows, which ascend, out of the rows that
// the covariance is built on.
func (p *Posterior) Downdate(ctx context.Context, rows []int) (*gp.Downdate, error) {
	return p.thin.Downdate(ctx, rows)
}

// MulKernelTo writes K v for each row v of a, N·C numbers, with K of all training examples.
// Each takes a product with Jᵀ and one with J of the source.
func (p *Posterior) MulKernelTo(ctx context.Context, dst, a *mat.Dense) error {
	rows, n := a.Dims()
	if n != len(p.alpha) {
		panic("kept: a vector to multiply has a wrong length")
	}
	dense.SizeTo(dst, rows, n)
	w := make([]float64, p.p)
	products := linearize.ProductsOf(p.x)
	for i := range rows {
		// K v = J Σ₀ Jᵀv (E2)
		if err := products.MulTransVecTo(ctx, w, a.RawRowView(i)); err != nil {
			return err
		}
		floats.Mul(w, p.variance)
		if err := products.MulVecTo(ctx, dst.RawRowView(i), w); err != nil {
			return err
		}
		if err := sites.NotFinite("product with the kernel", dst.RawRowView(i), 0, p.c); err != nil {
			return err
		}
	}
	return nil
}

// LeaveOneOutTo implements gp.Dual: the rows that an example keeps are taken out, and the
// step is made with its whole residual.
func (p *Posterior) LeaveOneOutTo(ctx context.Context, mean, cov *mat.Dense, rows []int, x *linearize.Batch) error {
	t, c := p.thin.TrainingSet().CheckRows(rows, x)
	dense.SizeTo(mean, t, c)
	dense.SizeTo(cov, t*c, c)
	if t == 0 || mean == nil && cov == nil {
		return ctx.Err()
	}
	if mean != nil && cov == nil {
		cov = new(mat.Dense)
	}
	if err := p.thin.LeaveOneOutTo(ctx, nil, cov, rows, x); err != nil || mean == nil {
		return err
	}
	mean.Copy(x.F)
	if err := p.meanTo(mean, x); err != nil {
		return err
	}
	sites.LeaveOut(mean, cov, p.residuals(rows))
	return nil
}

// residuals returns what steps that leave out examples start from: α where the mean is a
// sum over training examples, and the residuals of the sites otherwise.
func (p *Posterior) residuals(rows []int) []float64 {
	c := p.c
	var r []float64
	for _, i := range rows {
		if p.hasDualMean() {
			r = append(r, p.alpha[i*c:(i+1)*c]...)
		} else {
			r = append(r, p.sites.Residual.RawRowView(i)...)
		}
	}
	return r
}

var _ gp.Latent = (*Posterior)(nil)
