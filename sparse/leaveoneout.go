package sparse

import (
	"context"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize"
)

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
	t, c := p.set.CheckRows(rows, x)
	dense.SizeTo(mean, t, c)
	dense.SizeTo(cov, t*c, c)
	if err := ctx.Err(); err != nil || mean == nil && cov == nil {
		return err
	}
	if cov == nil {
		cov = mat.NewDense(t*c, c, nil)
	}
	moves := make([]bool, t)
	err := p.eachOwn(ctx, rows, x, mean != nil, func(at int, o *own) {
		o.leaveOut(mean, cov, at)
		// ‖cov_−i r‖ ≤ tr cov_−i ‖r‖
		sd := math.Sqrt(mat.Trace(dense.Slice(cov, at*c, (at+1)*c)))
		moves[at] = !(sd*floats.Norm(o.r, 2) <= stillMean)
	})
	if err != nil || mean == nil {
		return err
	}
	var places, moved []int
	for at, m := range moves {
		if m {
			places, moved = append(places, at), append(moved, rows[at])
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
