package inference

import (
	"context"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/problem"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/sparse"
)

const (
	// looseTrace is the part of the prior variance of the training rows that inducing
	// examples may leave out before leave-one-out takes its means from kept rows. On
	// LeNet-5 of all of MNIST 200 of them leave out .088, and the calibrated NLL would
	// be .0036 by leave-one-out against .028 of test rows.
	looseTrace = .01
	// mostKept is the most rows that are kept for it. On LeNet-5 of all of MNIST they
	// have .989 of tr Λ, and with them leave-one-out over 5,000 rows takes a sixth of the
	// time of the pass through 200 inducing examples.
	mostKept = 7000
	// fewKept is the part of tr Λ that kept rows must have for their means to count as
	// those of all rows.
	fewKept = .9
)

// A leaver predicts training rows without themselves.
type leaver func(ctx context.Context, mean, cov *mat.Dense, rows []int, x *linearize.Batch) error

// leaver returns what predicts training rows without themselves: the posterior alone,
// or, through few inducing examples at θ*, with means by kept rows (E16). warning says
// where the means are only rough.
func (q *Posterior) leaver(ctx context.Context, c *job.Job, p *problem.Problem) (l leaver, warning, err error) {
	s, ok := q.Dual.(*sparse.Posterior)
	if !ok || !problem.ThroughInducing(q.How.Name) || s.Refitted() || q.How.mean != gp.Network || q.traceError <= looseTrace { // that of kept rows is not known
		return q.Dual.LeaveOneOutTo, nil, nil
	}
	kernel := ntk.New(q.prior, p.Model.Net.Theta(), nil)
	// The Jacobian of combined outputs takes no more than that of all.
	most := p.Within(mostKept, func(n int) int64 {
		return problem.WholeBytes(float64(gp.Bytes(n, 1)) + float64(p.Model.Net.BatchBytes(n)))
	})
	rows, err := gp.Keep(ctx, kernel, q.Dual.Data(), q.Dual.Sites(), &gp.KeepOptions{Most: most, Progress: c.Show})
	if err != nil {
		return nil, nil, err
	}
	if rows.Len() == 0 {
		return s.LeaveOneOutTo, nil, nil // every row is saturated, and none moves another
	}
	kept, err := gp.FitKept(ctx, kernel, q.Dual.Data(), q.Dual.Sites(), rows, &gp.Options{MaxMemory: p.Limits.Memory, Progress: c.Show})
	if err != nil {
		return nil, nil, err
	}
	part := rows.Trace / rows.Total
	c.Detail("leave-one-out means by %d rows of the training data, with %.4g %% of tr Λ", rows.Len(), 100*part)
	if part < fewKept {
		warning = linearize.NewWarning("leave-one-out-rough", part, fewKept, "Give more --inducing, or --calibrate heldout.",
			"%d inducing %s leave out %.2g %% of the prior variance, and the %d rows that leave-one-out takes its means from have only %.2g %% of the information. The calibrated scale may be too large.", len(q.How.inducing), q.How.elements(), 100*q.traceError, rows.Len(), 100*part)
	}
	return func(ctx context.Context, mean, cov *mat.Dense, at []int, x *linearize.Batch) error {
		return s.LeaveOneOutBy(ctx, kept, mean, cov, at, x)
	}, warning, nil
}
