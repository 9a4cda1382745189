package funcgp

import (
	"context"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm/score"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/linearize"
)

// suitsCoverage returns an error for a share that n training rows, which may be a sample, are too few to give.
// It also refuses problems with several labels or targets a row.
func (p *problem) suitsCoverage(share float64, n int, which string) error {
	if _, targets := p.Examples.Y.Dims(); targets > 1 && p.Task.Classes == nil {
		what := "target"
		if p.Task.MultiLabel() {
			what = "label"
		}
		return job.FullErrorf("{coverage} is for one class or target a row, but the rows of %s have several %ss; leave it out, or take one %[2]s at a time, by a network with one output", p.Examples.Data.Source, what)
	}
	if _, err := score.JackknifeRank(n, share); err != nil {
		return job.FullErrorf("{coverage=%v}: there are N = %d %s, which give at most N/(N+1) = %.6g; give less, or more training rows", share, n, which, float64(n)/float64(n+1))
	}
	return nil
}

// A covered computes prediction intervals or prediction sets of rows. Several goroutines may use one.
type covered struct {
	Share     float64
	task      *problemTask
	from      string // loo or heldout: the rows that the scores are of
	scored    int    // their number
	jackknife *score.Jackknife
	// each calls do with the predictions at each row of b that belong to the scores, scored×C, possibly on several
	// goroutines.
	each func(ctx context.Context, b *linearize.Batch, do func(t int, mean *mat.Dense) error) error
}

// covers returns the scored rows from which regions are computed: training rows that are left out or, where the
// posterior was calibrated by held-out rows, those.
func (q *solution) covers(ctx context.Context, c *job.Job, p *problem, share float64) (*covered, error) {
	defer c.Clear()
	k := &covered{Share: share, task: p.Task, from: "loo"}
	score := k.leaveOut
	if q.Calibration != nil && q.Calibration.Method == "heldout" {
		k.from, score = "heldout", k.holdOut
	}
	if err := score(ctx, c, p, q); err != nil {
		return nil, err
	}
	return k, c.EndPart(ctx, "factorize")
}

// leaveOut scores training rows by predictions without themselves: jackknife+.
func (k *covered) leaveOut(ctx context.Context, c *job.Job, p *problem, q *solution) error {
	rows := q.leftOut(p)
	if err := p.suitsCoverage(k.Share, len(rows), "training rows to leave out"); err != nil {
		return err
	}
	e, err := explain.New(q.Dual, q.Kernel, &explain.Options{Limits: linearize.Limits{Memory: p.Memory, Progress: func(_ string, done, total int) { c.Show("leave-one-out", done, total) }}})
	if err != nil {
		return err
	}
	w, err := e.Without(ctx, rows)
	if err == nil {
		k.jackknife, err = score.NewJackknife(p.Task.Likelihood, k.Share, rowsAt(p.Examples.Y, rows), w.Mean())
	}
	if err != nil {
		return explainError(p.Examples.Train, err)
	}
	k.scored, k.each = len(rows), w.Each
	if n := k.jackknife.Unknown(); n > 0 {
		c.Warn(job.NewWarning("coverage-wide", float64(n), 0, "Raise {prior-precision}.", "%d of %d training rows fix the function by themselves, so that nothing is known without them. They widen every interval or set.", n, len(rows)))
	}
	return nil
}

// holdOut scores rows that were not trained on: split conformal prediction, which is jackknife+ where no prediction
// depends on the scored rows.
func (k *covered) holdOut(ctx context.Context, c *job.Job, p *problem, q *solution) error {
	rows, err := p.HeldOut("{coverage} with {calibrate=heldout}", "score")
	if err != nil {
		return err
	}
	if err := p.suitsCoverage(k.Share, rows.Len(), "held-out rows"); err != nil {
		return err
	}
	m, err := q.heldOutMoments(ctx, c, p, rows, false)
	if err != nil {
		return err
	}
	n, outputs := rows.Len(), p.Model.Outputs
	if k.jackknife, err = score.NewJackknife(p.Task.Likelihood, k.Share, m.y, m.mean); err != nil {
		return explainError(rows.Slice(0, n), err)
	}
	k.scored = n
	k.each = func(ctx context.Context, b *linearize.Batch, do func(t int, mean *mat.Dense) error) error {
		f := mat.NewDense(b.Len(), outputs, nil)
		if err := q.Latent().PredictTo(ctx, f, nil, b); err != nil {
			return err
		}
		return par.Do(ctx, b.Len(), func(t int) error {
			same := mat.NewDense(n, outputs, nil)
			for i := range n {
				same.SetRow(i, f.RawRowView(t))
			}
			return do(t, same)
		})
	}
	return nil
}

// Regions returns the regions of the rows of b, of T rows. A nil coverage has none.
func (k *covered) Regions(ctx context.Context, b *linearize.Batch) ([]result.Region, error) {
	all := make([]result.Region, b.Len())
	if k == nil {
		return all, nil
	}
	return all, k.each(ctx, b, func(t int, mean *mat.Dense) error {
		if k.jackknife.Classes() == 0 {
			lo, hi := k.jackknife.Interval(0, mean)
			if lo > hi {
				lo, hi = math.NaN(), math.NaN()
			}
			all[t].Interval = []result.Float{result.Float(lo), result.Float(hi)}
			return nil
		}
		set := []result.Float{}
		for class, in := range k.jackknife.Set(0, mean) {
			if in {
				set = append(set, result.Float(k.task.Classes[class]))
			}
		}
		all[t].Set = set
		return nil
	})
}

// Report returns the part of a summary that describes the coverage, before any row is added. It is nil for a
// nil coverage.
func (k *covered) Report() *result.Coverage {
	if k == nil {
		return nil
	}
	return &result.Coverage{Share: result.Float(k.Share), From: k.from, Scored: k.scored, Unknown: k.jackknife.Unknown()}
}
