package funcgp

import (
	"context"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/linearize"
)

const (
	mostLeftOutRefits = 20   // most training rows that are left out by a refit
	leftOutWork       = 1e12 // most (N·C)³ of all these refits together
	leftOutTolerance  = 1e-8 // of a Gaussian likelihood, where the closed form is exact
)

// leaveOut compares leave-one-out in closed form with refits at the mode, for some training rows that are
// spread evenly.
func (v *validation) leaveOut(ctx context.Context, refit *gp.Exact) (*result.LeaveOneOut, error) {
	e, lik, c := v.problem.Examples, v.problem.Task.Likelihood, v.problem.Model.Outputs
	n := e.Train.Len()
	size := float64(n * c)
	count := max(1, min(mostLeftOutRefits, n, int(leftOutWork/(size*size*size))))
	at, out := make([]int, count), &result.LeaveOneOut{}
	for i := range at {
		at[i] = i * n / count
		out.Rows = append(out.Rows, e.Train.Index[at[i]])
	}
	batch := refit.Data().(*linearize.Batch)
	closed, refitted := newMoments(rowsAt(e.Y, at), c), newMoments(rowsAt(e.Y, at), c)
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
	if hasNoise(lik) {
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
	addLeftOut(out, "mean", refitted.mean, closed.mean, largestEntry(refitted.mean), tolerance)
	addLeftOut(out, "covariance", refitted.cov, closed.cov, largestEntry(refitted.cov), tolerance)
	addLeftOut(out, "log density", refitLog, closedLog, 1, tolerance)
	return out, nil
}

// addLeftOut compares the values from refits with the values in closed form, relative to scale, and adds the
// result to l.
func addLeftOut(l *result.LeaveOneOut, name string, refit, closed *mat.Dense, scale float64, tolerance result.Float) {
	r := result.LeftOutValues{Quantity: name, Tolerance: tolerance}
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
