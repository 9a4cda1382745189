package inference

import (
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm/score"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/internal/problem"
	"github.com/funcgp/funcgp/linearize"
)

// CoverageFlags ask for an interval or a set of classes for each row.
type CoverageFlags struct{ Share *float64 } // nil where not given

// CoverageHelp says what --coverage promises.
const CoverageHelp = `

With --coverage P, intervals and sets come from predictions without each training
row in turn. Where training rows and new ones are exchangeable, and all that was
fitted treats them alike, they hold the target with a probability of at least
1 − 2(1 − P), and usually close to P. Here the trained parameters have seen all
rows, so this is approximate: a network that fits its training rows too closely
gets intervals that are too narrow. The summary says what share they held. With
--calibrate heldout the rows that were not trained on take the place of the
training rows, and the probability is at least P, whatever was trained how.`

// Suits refuses a share that n training rows, which may be a sample, cannot give, and a problem of several labels or targets a row.
func (s *CoverageFlags) Suits(p *problem.Problem, n int, which string) error {
	if s.Share == nil {
		return nil
	}
	if _, targets := p.Examples.Y.Dims(); targets > 1 && p.Task.Classes == nil {
		what := "target"
		if p.Task.MultiLabel() {
			what = "label"
		}
		return job.FullErrorf("--coverage is for one class or target a row, but the rows of %s have several %ss; leave it out, or take one %[2]s at a time, by a network with one output", p.Examples.Data.Source, what)
	}
	if _, err := score.JackknifeRank(n, *s.Share); err != nil {
		return job.FullErrorf("--coverage %v: there are N = %d %s, which give at most N/(N+1) = %.6g; give less, or more training rows", *s.Share, n, which, float64(n)/float64(n+1))
	}
	return nil
}

// A Coverage makes the intervals or sets of test rows, and counts those that hold their target.
type Coverage struct {
	Share     float64
	task      *problem.Task
	from      string // loo or heldout: the rows that the scores are of
	scored    int    // their number
	jackknife *score.Jackknife
	// each calls do with the predictions at each row of b that belong to the scores, scored×C, possibly on several
	// goroutines.
	each func(ctx context.Context, b *linearize.Batch, do func(t int, mean *mat.Dense) error) error

	rows, held, empty int
	size              float64 // of all rows: widths of the intervals, or classes
	sized             int     // rows whose size is finite
}

// Prepare scores training rows that are left out, or the held-out rows where the posterior was calibrated by them. It
// returns nil where no coverage was asked for.
func (s *CoverageFlags) Prepare(ctx context.Context, c *job.Job, p *problem.Problem, q *Posterior) (*Coverage, error) {
	if s.Share == nil {
		return nil, nil
	}
	defer c.Clear()
	k := &Coverage{Share: *s.Share, task: p.Task, from: "loo"}
	score := k.leaveOut
	if q.Calibration != nil && q.Calibration.Method == "heldout" {
		k.from, score = "heldout", k.holdOut
	}
	if err := score(ctx, c, p, q, s); err != nil {
		return nil, err
	}
	return k, c.EndPart(ctx, "factorize")
}

// leaveOut scores training rows by predictions without themselves: jackknife+.
func (k *Coverage) leaveOut(ctx context.Context, c *job.Job, p *problem.Problem, q *Posterior, s *CoverageFlags) error {
	rows := q.leftOut(p)
	if err := s.Suits(p, len(rows), "training rows to leave out"); err != nil {
		return err
	}
	e, err := explain.New(q.Dual, q.Kernel, &explain.Options{Limits: linearize.Limits{Memory: p.Limits.Memory, Progress: func(_ string, done, total int) { c.Show("leave-one-out", done, total) }}})
	if err != nil {
		return err
	}
	w, err := e.Without(ctx, rows)
	if err == nil {
		k.jackknife, err = score.NewJackknife(p.Task.Likelihood, k.Share, problem.RowsAt(p.Examples.Y, rows), w.Mean())
	}
	if err != nil {
		return p.TrainNames().ExplainError(err)
	}
	k.scored, k.each = len(rows), w.Each
	if n := k.jackknife.Unknown(); n > 0 {
		c.Warn(linearize.NewWarning("coverage-wide", float64(n), 0, "Raise --prior-precision.", "%d of %d training rows fix the function by themselves, so that nothing is known without them. They widen every interval or set.", n, len(rows)))
	}
	return nil
}

// holdOut scores rows that were not trained on: split conformal prediction, which is jackknife+ where no prediction
// depends on the scored rows.
func (k *Coverage) holdOut(ctx context.Context, c *job.Job, p *problem.Problem, q *Posterior, s *CoverageFlags) error {
	rows, err := p.HeldOut("--coverage with --calibrate heldout", "score")
	if err != nil {
		return err
	}
	if err := s.Suits(p, rows.Len(), "held-out rows"); err != nil {
		return err
	}
	m, err := q.heldOutMoments(ctx, c, p, rows, false)
	if err != nil {
		return err
	}
	n, outputs := rows.Len(), p.Model.Outputs
	if k.jackknife, err = score.NewJackknife(p.Task.Likelihood, k.Share, m.y, m.mean); err != nil {
		return problem.NamesOf(rows, 0, n).ExplainError(err)
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

// A Region is the interval or the set of one row; the other is nil.
type Region struct{ Interval, Set []result.Float }

// Regions returns the regions of the rows of b; y are their targets, N×1, and nil where they are unknown. A nil
// coverage has none.
func (k *Coverage) Regions(ctx context.Context, b *linearize.Batch, y *mat.Dense) ([]Region, error) {
	all := make([]Region, b.Len())
	if k == nil {
		return all, nil
	}
	err := k.each(ctx, b, func(t int, mean *mat.Dense) error {
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
	if err != nil {
		return nil, err
	}
	if y == nil {
		return all, nil
	}
	for t := range all {
		// Count the region of a row with target y, of classes their number.
		r := &all[t]
		y := y.At(t, 0)
		k.rows++
		var holds, empty bool
		var size float64
		if r.Set != nil {
			size, empty = float64(len(r.Set)), len(r.Set) == 0
			holds = slices.Contains(r.Set, result.Float(k.task.Classes[int(y)]))
		} else {
			lo, hi := float64(r.Interval[0]), float64(r.Interval[1])
			size, holds = hi-lo, lo <= y && y <= hi
			if empty = math.IsNaN(lo); empty {
				size = 0
			}
		}
		if holds {
			k.held++
		}
		if empty {
			k.empty++
		}
		if !math.IsInf(size, 0) {
			k.size += size
			k.sized++
		}
	}
	return all, nil
}

// A CoverageReport says how many test rows had their target in their interval or set.
type CoverageReport struct {
	Share    result.Float    `json:"share"`    // asked for
	Measured result.Float    `json:"measured"` // share of the test rows
	Band     [2]result.Float `json:"band"`     // 95 % confidence interval of that share [Clopper and Pearson]
	Width    *result.Float   `json:"mean_width,omitempty"`
	Size     *result.Float   `json:"mean_size,omitempty"`
	Empty    int             `json:"empty"`     // test rows with an empty interval or set
	From     string          `json:"from"`      // loo: training rows without themselves; heldout: rows not trained on
	Scored   int             `json:"scored"`    // number of those rows
	Unknown  int             `json:"undefined"` // of them, those that count as infinitely far
}

// Report is nil for a nil coverage.
func (k *Coverage) Report() *CoverageReport {
	if k == nil {
		return nil
	}
	lo, hi := math.NaN(), math.NaN() // where no target is known
	if k.rows > 0 {
		lo, hi = score.ClopperPearson(k.held, k.rows, .95)
	}
	r := &CoverageReport{Share: result.Float(k.Share), Measured: result.Float(float64(k.held) / float64(k.rows)), Band: [2]result.Float{result.Float(lo), result.Float(hi)},
		Empty: k.empty, From: k.from, Scored: k.scored, Unknown: k.jackknife.Unknown()}
	size := problem.Number(k.size / float64(k.sized))
	if k.jackknife.Classes() > 0 {
		r.Size = size
	} else {
		r.Width = size
	}
	return r
}
