package sparse

import (
	"context"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/linearize"
)

// PseudoCovarianceTo writes the covariance of b_i over labels of training example i that
// are drawn from what the other examples predict for it, through the inducing examples,
// n·C×C: Λ_i + Λ_i cov_−i Λ_i = (Λ_i⁻¹ − h_i)⁻¹ with the cov_−i of φᵀw alone, without the
// residual k_ii − q_ii. It is zero outside a subset of data. rows and x are those of
// InfluenceTo. With V for this covariance, C(x*,x_i) V C(x_i,x*) is the amount by which
// the example lowers the variance of the mean at x* through the inducing examples.
func (p *Posterior) PseudoCovarianceTo(ctx context.Context, v *mat.Dense, rows []int, x *linearize.Batch) error {
	if err := p.InfluenceTo(ctx, v, new(mat.Dense), rows, x); err != nil {
		return err
	}
	c, s := p.b.c, p.Sites()
	return par.Do(ctx, len(rows), func(at int) error {
		v, lo, hi := dense.Slice(v, at*c, (at+1)*c), rows[at]*c, (rows[at]+1)*c
		gp.LeaveOneOutFrom(nil, v, mat.DenseCopyOf(v), dense.Slice(s.Root, lo, hi), nil, nil, make([]float64, c))
		lambda, moved := dense.Slice(s.Lambda, lo, hi), new(mat.Dense)
		// Λ_i + Λ_i cov_−i Λ_i (E17)
		moved.Product(lambda, v, lambda)
		v.Add(lambda, moved)
		return nil
	})
}

// stillMean is the distance, relative to the standard deviation without the example,
// by which leaving out an example must be able to move its mean for LeaveOneOutBy to
// ask the posterior of kept rows. Of the digits of MNIST it spares five in six.
const stillMean = 1e-3

// LeaveOneOutBy is LeaveOneOutTo with the means of another posterior, which is given the
// kept rows of the same training examples (E16). The covariance is that of this
// posterior, since it is what PredictTo gives for a new input.
//
// Where the mean is f(x;θ*), the network has fitted each example in all directions,
// whereas h = φᵀA'⁻¹φ is its leverage in the span of the inducing examples alone (E17).
// With few of them the mean of LeaveOneOutTo hardly moves, and the example seems to be
// predicted as well without itself as with it. Kept rows have no such limit: what is
// dropped makes cov_−i a little too large instead.
//
// An example whose residual r is so small that the step cov_−i r is less than 1e-3 of the
// standard deviation √tr cov_−i keeps the mean of LeaveOneOutTo.
// The posterior must have the mean f(x;θ*), and kept the same kernel.
func (p *Posterior) LeaveOneOutBy(ctx context.Context, kept *gp.Thinned, mean, cov *mat.Dense, rows []int, x *linearize.Batch) error {
	if p.linearMean() {
		panic("sparse: leave-one-out by kept rows is for the mean f(x;θ*)")
	}
	t, c := len(rows), p.b.c
	dense.SizeTo(mean, t, c)
	dense.SizeTo(cov, t*c, c)
	if err := ctx.Err(); err != nil || mean == nil && cov == nil {
		return err
	}
	if cov == nil {
		cov = mat.NewDense(t*c, c, nil)
	}
	if err := p.LeaveOneOutTo(ctx, mean, cov, rows, x); err != nil || mean == nil {
		return err
	}
	var places, moved []int
	for at, row := range rows {
		// ‖cov_−i r‖ ≤ tr cov_−i ‖r‖
		sd := math.Sqrt(mat.Trace(dense.Slice(cov, at*c, (at+1)*c)))
		if !(sd*floats.Norm(p.Sites().Residual.RawRowView(row), 2) <= stillMean) {
			places, moved = append(places, at), append(moved, row)
		}
	}
	if len(places) == 0 {
		return nil
	}
	some, err := x.Gather(ctx, places)
	if err != nil {
		return err
	}
	step := mat.NewDense(len(places), c, nil)
	if err := kept.LeaveOneOutTo(ctx, step, nil, moved, some); err != nil {
		return err
	}
	for k, at := range places {
		mean.SetRow(at, step.RawRowView(k))
	}
	return nil
}
