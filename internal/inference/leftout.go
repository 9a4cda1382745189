package inference

import (
	"context"
	"fmt"
	"io"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/problem"
	"github.com/funcgp/funcgp/linearize"
)

const (
	mostLeftOutRefits = 20   // most training rows that are left out by a refit
	leftOutWork       = 1e12 // most (N·C)³ of all these refits together
	leftOutTolerance  = 1e-8 // of a Gaussian likelihood, where the closed form is exact
)

// A LeftOutComparison compares leave-one-out in closed form (E17) with refits without the row.
type LeftOutComparison struct {
	Rows   []int           `json:"rows"`
	Values []LeftOutValues `json:"values"`
}

// LeftOutValues are the values of the entry that differs most. Difference is relative to the largest entry, and
// absolute for the log density. Tolerance is null where the closed form is one Newton step and not exact.
type LeftOutValues struct {
	Quantity   string       `json:"quantity"`
	Refit      result.Float `json:"refit"`
	FirstOrder result.Float `json:"first_order"`
	Difference result.Float `json:"difference"`
	Tolerance  result.Float `json:"tolerance"`
	OK         bool         `json:"ok"`
}

// leaveOut compares some training rows, spread evenly, at the mode.
func (v *Validation) leaveOut(ctx context.Context, refit *gp.Exact) (*LeftOutComparison, error) {
	e, lik, c := v.problem.Examples, v.problem.Task.Likelihood, v.problem.Model.Outputs
	n := e.Train.Len()
	size := float64(n * c)
	count := max(1, min(mostLeftOutRefits, n, int(leftOutWork/(size*size*size))))
	at, out := make([]int, count), &LeftOutComparison{}
	for i := range at {
		at[i] = i * n / count
		out.Rows = append(out.Rows, e.Train.Rows[at[i]])
	}
	batch := refit.Data().(*linearize.Batch)
	closed, refitted := newMoments(problem.RowsAt(e.Y, at), c), newMoments(problem.RowsAt(e.Y, at), c)
	x, err := batch.Gather(ctx, at)
	if err != nil {
		return nil, err
	}
	if err := refit.LeaveOneOutTo(ctx, closed.mean, closed.cov, at, x); err != nil {
		return nil, err
	}
	y := *v.problem.TrainTargets()
	y.Weights = make([]float64, n)
	for i := range y.Weights {
		y.Weights[i] = v.problem.TrainTargets().Weight(i)
	}
	for i, row := range at {
		weight := y.Weights[row]
		y.Weights[row] = 0
		without, err := refit.Refit(ctx, &y)
		if err != nil {
			return nil, err
		}
		mean, cov := refitted.tile(i, i+1)
		if err := without.PredictTo(ctx, mean, cov, batch.Slice(row, row+1)); err != nil {
			return nil, err
		}
		y.Weights[row] = weight
		v.con.Show("leave one out", i+1, count)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	tolerance := result.Undefined()
	if problem.HasNoise(lik) {
		tolerance = leftOutTolerance
	}
	densities := func(m *moments) (*mat.Dense, error) {
		logp := make([]float64, count)
		err := predictive.DefaultLink(lik, c).LogPredictiveTo(logp, lik, m.y, m.mean, m.cov)
		return mat.NewDense(count, 1, logp), err
	}
	refitLog, err := densities(refitted)
	if err != nil {
		return nil, err
	}
	closedLog, err := densities(closed)
	if err != nil {
		return nil, err
	}
	out.add("mean", refitted.mean, closed.mean, largestEntry(refitted.mean), tolerance)
	out.add("covariance", refitted.cov, closed.cov, largestEntry(refitted.cov), tolerance)
	out.add("log density", refitLog, closedLog, 1, tolerance)
	return out, nil
}

// add compares two matrices, relative to scale.
func (l *LeftOutComparison) add(name string, refit, closed *mat.Dense, scale float64, tolerance result.Float) {
	r := LeftOutValues{Quantity: name, Tolerance: tolerance}
	worst := -1.0
	for i := range refit.RawMatrix().Rows {
		for j, a := range refit.RawRowView(i) {
			b := closed.At(i, j)
			if d := math.Abs(a - b); d > worst || math.IsNaN(d) {
				worst, r.Refit, r.FirstOrder = d, result.Float(a), result.Float(b)
			}
		}
	}
	if scale > 0 {
		worst /= scale
	}
	r.Difference = result.Float(worst)
	r.OK = !tolerance.Finite() || worst <= float64(tolerance)
	l.Values = append(l.Values, r)
}

// largestEntry returns the largest absolute value.
func largestEntry(m *mat.Dense) float64 {
	return math.Max(mat.Max(m), -mat.Min(m))
}

// ok tells whether all differences are within their tolerance; there are none in a nil comparison.
func (l *LeftOutComparison) ok() bool {
	if l == nil {
		return true
	}
	for _, r := range l.Values {
		if !r.OK {
			return false
		}
	}
	return true
}

// Text prints the comparison as part of the table of w.
func (l *LeftOutComparison) Text(w io.Writer) {
	if l == nil {
		fmt.Fprintln(w, "leave-one-out is compared with refits for --method exact alone")
		return
	}
	fmt.Fprintf(w, "leave-one-out, %d rows\trefit without the row\tone step in closed form\tdifference\ttolerance\t\n", len(l.Rows))
	for _, r := range l.Values {
		tolerance, verdict := "-", "not exact"
		if r.Tolerance.Finite() {
			tolerance, verdict = fmt.Sprintf("%.0e", float64(r.Tolerance)), "ok"
		}
		if !r.OK {
			verdict = "DIFFERS"
		}
		fmt.Fprintf(w, "%s\t%.12g\t%.12g\t%.1e\t%s\t%s\n", r.Quantity, float64(r.Refit), float64(r.FirstOrder), float64(r.Difference), tolerance, verdict)
	}
}
