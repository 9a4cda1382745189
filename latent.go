package funcgp

import (
	"context"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize"
)

// Latent returns the posterior over functions that predictions use: the one over parameters where Structure or
// Predictive bnn asks for it, f(x;θ*) with the covariance of the refit where the network's mean is kept (E21), and
// the fit itself otherwise.
func (q *solution) Latent() gp.Latent {
	switch {
	case q.weights != nil:
		return q.weights
	case q.network:
		return &latentAnswer{q: q}
	}
	return q.Dual
}

// A latentAnswer is a posterior whose mean is not its own. If other is nil, the covariance is that of q and the
// mean is f(x;θ*); but where q has training rows D' and the network was matched to other rows D, the mean is
// f(x;θ*) + f̂_D'(x) − f̂_D(x). Otherwise the latentAnswer is the posterior other, given other training rows,
// and its mean is the mean of q plus the change from one refit to the other.
type latentAnswer struct {
	q     *solution
	other gp.Latent
}

var _ gp.Latent = (*latentAnswer)(nil)

// PredictTo implements gp.Latent.
func (a *latentAnswer) PredictTo(ctx context.Context, mean, cov *mat.Dense, x *linearize.Batch) error {
	return a.to(ctx, mean, cov, x, gp.Latent.PredictTo)
}

// JointTo implements gp.Latent.
func (a *latentAnswer) JointTo(ctx context.Context, mean, cov *mat.Dense, x *linearize.Batch) error {
	return a.to(ctx, mean, cov, x, gp.Latent.JointTo)
}

func (a *latentAnswer) to(ctx context.Context, mean, cov *mat.Dense, x *linearize.Batch, predict func(l gp.Latent, ctx context.Context, mean, cov *mat.Dense, x *linearize.Batch) error) error {
	if a.other != nil {
		if err := predict(a.other, ctx, mean, cov, x); err != nil || mean == nil {
			return err
		}
		now, fitted, err := a.q.means(ctx, x)
		if err == nil {
			mean.Add(mean, now)
			mean.Sub(mean, fitted)
		}
		return err
	}
	if err := predict(a.q.Dual, ctx, nil, cov, x); err != nil || mean == nil {
		return err
	}
	if a.q.anchor == nil {
		dense.SizeTo(mean, x.Len(), x.Outputs())
		mean.Copy(x.F)
		return nil
	}
	// f(x;θ*) + f̂_D'(x) − f̂_D(x) = f̂_D'(x) − J(x)(v_D − θ*)
	if err := a.q.Dual.PredictTo(ctx, mean, nil, x); err != nil {
		return err
	}
	shift := make([]float64, x.Len()*x.Outputs())
	x.MulVecTo(shift, a.q.anchor)
	mean.Apply(func(i, j int, v float64) float64 { return v - shift[i*x.Outputs()+j] }, mean)
	return nil
}

// Changed is the function with other training rows, whose refit is other: f(x;θ*) + f̂_D'(x) − f̂_D(x) where the
// answers are the network's own, else f̂_D'(x).
func (q *solution) Changed(other gp.Latent) gp.Latent {
	if !q.network {
		return other
	}
	return &latentAnswer{q, other}
}

// Shift returns the difference between the answer for a row and the mean of its posterior, C numbers. It is nil
// if they are the same.
func (q *solution) Shift(ctx context.Context, x *linearize.Batch) ([]float64, error) {
	if !q.network {
		return nil, nil
	}
	now, fitted, err := q.means(ctx, x)
	if err != nil {
		return nil, err
	}
	now.Sub(now, fitted)
	return now.RawRowView(0), nil
}

// means returns the mean of the answer and the mean of the posterior, T×C each.
func (q *solution) means(ctx context.Context, x *linearize.Batch) (now, fitted *mat.Dense, err error) {
	now, fitted = mat.NewDense(x.Len(), x.Outputs(), nil), mat.NewDense(x.Len(), x.Outputs(), nil)
	if err = q.Latent().PredictTo(ctx, now, nil, x); err == nil {
		err = q.Dual.PredictTo(ctx, fitted, nil, x)
	}
	return now, fitted, err
}

// anchored returns v_D − θ*, P, of a refit to its training rows D: v_D = μ₀ + Σ₀Jᵀα.
func (q *solution) anchored(ctx context.Context, p *problem) ([]float64, error) {
	if q.anchor != nil {
		return q.anchor, nil
	}
	theta := p.Model.Net.Theta()
	sum, part, alpha, c := make([]float64, len(theta)), make([]float64, len(theta)), q.Dual.Alpha(), p.Model.Outputs
	err := q.Dual.Data().Batches(ctx, func(first int, b *linearize.Batch) error {
		b.MulTransVecTo(part, alpha[first*c:(first+b.Len())*c])
		floats.Add(sum, part)
		return nil
	})
	if err != nil {
		return nil, err
	}
	mean, variance := make([]float64, len(theta)), make([]float64, len(theta))
	q.prior.MeanTo(mean)
	q.prior.VarianceTo(variance)
	for i := range sum {
		sum[i] = mean[i] + variance[i]*sum[i] - theta[i]
	}
	return sum, nil
}
