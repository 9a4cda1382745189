package main

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/spf13/cobra"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/linearize"
)

// coverageFlags ask for an interval or a set of classes for each row.
type coverageFlags struct{ share *float64 } // nil where not given

// add defines --coverage.
func (s *coverageFlags) add(c *cobra.Command) {
	optionalFloat(c, &s.share, "coverage", "for each row give an interval (a regression) or a set of classes that should hold the target of a share `P` of new rows, by jackknife+ from leave-one-out predictions, or by held-out rows with --calibrate heldout")
}

// coverageHelp says what --coverage promises.
const coverageHelp = `

With --coverage P, intervals and sets come from predictions without each training
row in turn. Where training rows and new ones are exchangeable, and all that was
fitted treats them alike, they hold the target with a probability of at least
1 − 2(1 − P), and usually close to P. Here the trained parameters have seen all
rows, so this is approximate: a network that fits its training rows too closely
gets intervals that are too narrow. The summary says what share they held. With
--calibrate heldout the rows that were not trained on take the place of the
training rows, and the probability is at least P, whatever was trained how.`

// check refuses a share that cannot be one.
func (s *coverageFlags) check() error {
	if s.share != nil && !(*s.share > 0 && *s.share < 1) {
		return usagef("--coverage %v must be between 0 and 1", *s.share)
	}
	return nil
}

// suits refuses a share that n training rows, which may be a sample of those of
// the posterior, cannot give.
func (s *coverageFlags) suits(n int, which string) error {
	if s.share == nil {
		return nil
	}
	if _, err := glm.JackknifeRank(n, *s.share); err != nil {
		return fullErrorf("--coverage %v: there are N = %d %s, which give at most N/(N+1) = %.6g; give less, or more training rows", *s.share, n, which, float64(n)/float64(n+1))
	}
	return nil
}

// A coverage makes the intervals or sets of test rows, and counts those that hold
// their target.
type coverage struct {
	share     float64
	task      *task
	from      string // loo or heldout: the rows that the scores are of
	scored    int    // their number
	jackknife *glm.Jackknife
	// each calls do with the predictions at each row of b that belong to the scores,
	// scored×C, possibly on several goroutines.
	each func(ctx context.Context, b *linearize.Batch, do func(t int, mean *mat.Dense) error) error

	rows, held, empty int
	size              float64 // of all rows: widths of the intervals, or classes
	sized             int     // rows whose size is finite
}

// prepare scores training rows that are left out, or the held-out rows where the
// posterior was calibrated by them. It returns nil where no coverage was asked for.
func (s *coverageFlags) prepare(ctx context.Context, c *console, p *problem, q *posterior) (*coverage, error) {
	if s.share == nil {
		return nil, nil
	}
	defer c.bar.clear()
	k := &coverage{share: *s.share, task: p.task, from: "loo"}
	score := k.leaveOut
	if q.calibration != nil && q.calibration.Method == "heldout" {
		k.from, score = "heldout", k.holdOut
	}
	if err := score(ctx, c, p, q, s); err != nil {
		return nil, err
	}
	return k, c.endPart(ctx, "factorize")
}

// leaveOut scores training rows by predictions without themselves: jackknife+.
func (k *coverage) leaveOut(ctx context.Context, c *console, p *problem, q *posterior, s *coverageFlags) error {
	rows := q.leftOut(p)
	if err := s.suits(len(rows), "training rows to leave out"); err != nil {
		return err
	}
	e, err := explain.New(q.dual, q.kernel, &explain.Options{MaxMemory: p.limits.memory, Progress: func(done, total int) { c.show("leave-one-out", done, total) }})
	if err != nil {
		return err
	}
	w, err := e.Without(ctx, rows)
	if err == nil {
		k.jackknife, err = glm.NewJackknife(p.task.likelihood, k.share, rowsAt(p.examples.y, rows), w.Mean())
	}
	if err != nil {
		return p.trainNames().explainError(err)
	}
	k.scored, k.each = len(rows), w.Each
	if n := k.jackknife.Unknown(); n > 0 {
		c.warnText(fmt.Sprintf("coverage: %d of %d training rows fix the function by themselves, so that nothing is known without them; they widen every interval or set", n, len(rows)))
	}
	return nil
}

// holdOut scores rows that were not trained on: split conformal prediction, which is
// jackknife+ where no prediction depends on the scored rows.
func (k *coverage) holdOut(ctx context.Context, c *console, p *problem, q *posterior, s *coverageFlags) error {
	rows, err := p.heldOut("--coverage with --calibrate heldout", "score")
	if err != nil {
		return err
	}
	if err := s.suits(rows.Len(), "held-out rows"); err != nil {
		return err
	}
	y, err := p.targets(rows)
	if err != nil {
		return err
	}
	n, outputs, atOnce := rows.Len(), p.model.outputs, q.rowsAtOnce(p)
	mean := mat.NewDense(n, outputs, nil)
	for i := range par.Tiles(n, atOnce) {
		lo, hi := par.Bounds(i, n, atOnce)
		b, err := p.linearize(ctx, rows, lo, hi)
		if err == nil {
			err = q.dual.PredictTo(ctx, mean.Slice(lo, hi, 0, outputs).(*mat.Dense), nil, b)
		}
		if err != nil {
			return namesOf(rows, lo, hi).explainError(err)
		}
		c.show("held-out rows", hi, n)
	}
	if k.jackknife, err = glm.NewJackknife(p.task.likelihood, k.share, y, mean); err != nil {
		return namesOf(rows, 0, n).explainError(err)
	}
	k.scored = n
	k.each = func(ctx context.Context, b *linearize.Batch, do func(t int, mean *mat.Dense) error) error {
		f := mat.NewDense(b.Len(), outputs, nil)
		if err := q.dual.PredictTo(ctx, f, nil, b); err != nil {
			return err
		}
		return par.Do(ctx, 0, b.Len(), func(t int) error {
			same := mat.NewDense(n, outputs, nil)
			for i := range n {
				same.SetRow(i, f.RawRowView(t))
			}
			return do(t, same)
		})
	}
	return nil
}

// A region is the interval or the set of one row; the other is nil.
type region struct{ interval, set []report.Float }

// regions returns those of the rows of b; y are their targets, N×1. A nil coverage
// has none.
func (k *coverage) regions(ctx context.Context, b *linearize.Batch, y *mat.Dense) ([]region, error) {
	all := make([]region, b.Len())
	if k == nil {
		return all, nil
	}
	err := k.each(ctx, b, func(t int, mean *mat.Dense) error {
		all[t] = k.region(mean)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for t := range all {
		k.count(&all[t], y.At(t, 0))
	}
	return all, nil
}

// region is that of one row, from the predictions that belong to the scores.
func (k *coverage) region(mean *mat.Dense) region {
	if k.jackknife.Classes() == 0 {
		lo, hi := k.jackknife.Interval(0, mean)
		if lo > hi {
			lo, hi = math.NaN(), math.NaN()
		}
		return region{interval: []report.Float{report.Float(lo), report.Float(hi)}}
	}
	set := []report.Float{}
	for class, in := range k.jackknife.Set(0, mean) {
		if in {
			set = append(set, report.Float(k.task.classes[class]))
		}
	}
	return region{set: set}
}

// count counts the region of a row with target y, of classes their number.
func (k *coverage) count(r *region, y float64) {
	k.rows++
	var holds, empty bool
	var size float64
	if r.set != nil {
		size, empty = float64(len(r.set)), len(r.set) == 0
		holds = slices.Contains(r.set, report.Float(k.task.classes[int(y)]))
	} else {
		lo, hi := float64(r.interval[0]), float64(r.interval[1])
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

// A coverageReport says how many test rows had their target in their interval or
// set.
type coverageReport struct {
	Share    report.Float    `json:"share"`    // asked for
	Measured report.Float    `json:"measured"` // share of the test rows
	Band     [2]report.Float `json:"band"`     // 95 % confidence interval of that share [Clopper and Pearson]
	Width    *report.Float   `json:"mean_width,omitempty"`
	Size     *report.Float   `json:"mean_size,omitempty"`
	Empty    int             `json:"empty"`     // test rows with an empty interval or set
	From     string          `json:"from"`      // loo: training rows without themselves; heldout: rows not trained on
	Scored   int             `json:"scored"`    // number of those rows
	Unknown  int             `json:"undefined"` // of them, those that count as infinitely far
}

// report is nil for a nil coverage.
func (k *coverage) report() *coverageReport {
	if k == nil {
		return nil
	}
	lo, hi := glm.ClopperPearson(k.held, k.rows, .95)
	r := &coverageReport{Share: report.Float(k.share), Measured: report.Float(float64(k.held) / float64(k.rows)), Band: [2]report.Float{report.Float(lo), report.Float(hi)},
		Empty: k.empty, From: k.from, Scored: k.scored, Unknown: k.jackknife.Unknown()}
	size := number(k.size / float64(k.sized))
	if k.jackknife.Classes() > 0 {
		r.Size = size
	} else {
		r.Width = size
	}
	return r
}
