package funcgp

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/newton"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/linearize"
)

// closureTolerance is the largest difference allowed between a prediction and m + Σ κ α (E12), relative to the largest
// prediction. That of m + Σ C b (E14), whose covariances are differences of larger numbers, is newton.SmallOpen.
const closureTolerance = 1e-9

// solverTolerance is what two solvers of one posterior may differ by, relative to the largest entry.
const solverTolerance = 1e-6

// A validation compares a posterior at θ* with the one of weight space and with its own sums, and gathers the table.
type validation struct {
	con       *job.Job
	problem   *problem
	post      *solution
	test      *dataset.Rows
	tolerance float64
	rows      []weightspace.ComparisonRow
	leftOut   *result.LeaveOneOut // nil where the method is not exact
}

// Validate compares the posterior, which AtTheta returned, on the test rows, with differences up to a tolerance relative
// to the largest entry. The report of the posterior is left to the caller.
func (q *solution) Validate(ctx context.Context, c *job.Job, p *problem, tolerance float64) (*result.Validation, error) {
	test, err := p.Examples.Test(0, nil, "")
	if err != nil {
		return nil, err
	}
	if q.How.Name == "parameters" && !p.KeepsJacobian() {
		return nil, option.Errorf("{method=parameters} is compared with function space, which takes the Jacobian of all %d training rows, more than a quarter of the memory allowed or 1 GiB; give {train-count} with fewer", p.Examples.Train.Len())
	}
	if !isSparse(q.How.Name) {
		// Weight space takes the Jacobian of all test rows at once.
		if err := planWhole(fmt.Sprintf("the Jacobian of %d test rows", test.Len()), p.Memory, p.Model.Net.BatchBytes(test.Len())); err != nil {
			return nil, err
		}
	}
	v := &validation{con: c, problem: p, post: q, test: test, tolerance: tolerance}
	if q.exact != nil {
		err = v.exact(ctx, q.exact)
	} else {
		err = v.approximate(ctx)
	}
	c.Clear()
	if err != nil {
		return nil, err
	}
	out := &result.Validation{Schema: "funcgp/validate/1", OK: true, LeaveOneOut: v.leftOut}
	for _, r := range v.rows {
		out.OK = out.OK && r.OK
		out.Rows = append(out.Rows, result.Comparison{Quantity: r.Quantity, WeightSpace: result.Float(r.WeightSpace), FunctionSpace: result.Float(r.FunctionSpace), Difference: result.Float(r.Difference), Tolerance: result.Float(r.Tolerance), OK: r.OK})
	}
	return out, nil
}

// exact compares weight space and function space at θ* and at the mode of the linearized model, and checks that the
// contributions add up there.
func (v *validation) exact(ctx context.Context, dual *gp.Exact) error {
	x, err := v.tile(ctx, 0, v.test.Len())
	if err != nil {
		return err
	}
	w, err := v.weights(ctx)
	if err != nil {
		return err
	}
	if err := v.compare(ctx, dual, w, x); err != nil {
		return err
	}
	refit, err := dual.Refit(ctx, v.problem.TrainTargets())
	if err != nil {
		return err
	}
	if w, err = w.Refit(ctx, v.problem.TrainTargets()); err != nil {
		return err
	}
	if err := v.compare(ctx, refit, w, x); err != nil {
		return err
	}
	if err := v.closure(ctx, refit, "refit ", closureTolerance, func(lo, hi int) (*linearize.Batch, error) { return x.Slice(lo, hi), nil }); err != nil {
		return err
	}
	if v.leftOut, err = v.leaveOut(ctx, refit); err != nil {
		return err
	}
	v.con.Warn(refit.Warnings()...)
	v.con.Warn(w.Warnings()...)
	return nil
}

// weights fits the posterior over the parameters to the same training examples.
func (v *validation) weights(ctx context.Context) (*weightspace.Posterior, error) {
	q, net := v.post, v.problem.Model.Net
	// The training examples are in memory.
	train := q.Dual.Data().(*linearize.Batch)
	return weightspace.Fit(ctx, train, q.Dual.Sites(), q.prior, net.Theta(), &weightspace.Options{Mean: q.How.mean, Limits: v.problem.Bounds(v.con)})
}

// compare adds the differences between the two spaces to the table.
func (v *validation) compare(ctx context.Context, dual *gp.Exact, w *weightspace.Posterior, x *linearize.Batch) error {
	table, err := weightspace.Validate(ctx, dual, w, x, v.tolerance)
	if err != nil {
		return err
	}
	v.rows = append(v.rows, table.Rows...)
	return nil
}

// approximate checks that the contributions add up, and compares a posterior over the parameters with function space.
func (v *validation) approximate(ctx context.Context) error {
	tile := func(lo, hi int) (*linearize.Batch, error) { return v.tile(ctx, lo, hi) }
	dual := v.post.Dual
	if err := v.closure(ctx, dual, "", v.tolerance, tile); err != nil || v.post.How.Name != "parameters" {
		return err
	}
	x, err := v.tile(ctx, 0, v.test.Len())
	if err != nil {
		return err
	}
	exact, err := gp.Fit(ctx, v.post.Kernel, dual.Data().(*linearize.Batch), dual.Sites(), &gp.Options{Mean: gp.LinearGaussian, Limits: v.problem.Bounds(v.con)})
	if err != nil {
		return err
	}
	var mean, cov, fMean, fCov mat.Dense
	if err := dual.PredictTo(ctx, &mean, &cov, x); err != nil {
		return err
	}
	if err := exact.PredictTo(ctx, &fMean, &fCov, x); err != nil {
		return err
	}
	logDet := func(d float64) *mat.Dense { return mat.NewDense(1, 1, []float64{d}) }
	rows := []weightspace.ComparisonRow{differenceRow("mean", &mean, &fMean), differenceRow("covariance", &cov, &fCov),
		differenceRow("log det", logDet(v.post.Evidence.LogDet), logDet(exact.LogDet()))}
	v.rows = append(rows, v.rows...)
	return nil
}

// tile linearizes the test examples [lo, hi).
func (v *validation) tile(ctx context.Context, lo, hi int) (*linearize.Batch, error) {
	x, err := v.problem.Linearize(ctx, v.test, lo, hi)
	return x, explainError(v.test.Slice(lo, hi), err)
}

// closure compares the means of a posterior at the test examples with the sums of the prior mean and the
// contributions, for the posterior kernel C and for the prior kernel κ. The names of the rows begin with prefix; tile
// linearizes the test examples [lo, hi).
func (v *validation) closure(ctx context.Context, dual gp.Dual, prefix string, tolerance float64, tile func(lo, hi int) (*linearize.Batch, error)) error {
	ex, err := explain.New(dual, v.post.Kernel, &explain.Options{Top: 1})
	if err != nil {
		return err
	}
	posterior := weightspace.ComparisonRow{Quantity: prefix + "mean against m + Σ C(x,x_i) b_i", Tolerance: max(tolerance, newton.SmallOpen)}
	raw := weightspace.ComparisonRow{Quantity: prefix + "mean against m + Σ κ(x,x_i) α_i", Tolerance: tolerance}
	scale, n := 0.0, v.test.Len()
	// About what explaining t rows at once takes: some copies of the cross-kernel and of their Jacobian.
	step := v.problem.Within(min(n, predictRows), func(t int) int64 {
		q := v.post
		p := v.problem
		return wholeBytes(8 * float64(t*p.Model.Outputs) * (4*float64(q.terms(p)) + 2*float64(p.Model.Parameters())))
	})
	for lo := 0; lo < n; lo += step {
		part, err := tile(lo, min(lo+step, n))
		if err != nil {
			return err
		}
		mean := mat.NewDense(part.Len(), part.Outputs(), nil)
		if err := dual.PredictTo(ctx, mean, nil, part); err != nil {
			return err
		}
		rows, err := ex.Explain(ctx, part)
		if err != nil {
			return err
		}
		for t, outputs := range rows {
			for c, one := range outputs {
				f := mean.At(t, c)
				scale = math.Max(scale, math.Abs(f))
				widen(&posterior, f, one.PriorMean+one.Sum)
				widen(&raw, f, one.PriorMean+one.RawSum)
			}
		}
		v.con.Show("contributions", lo+part.Len(), n)
	}
	judge(&posterior, scale)
	judge(&raw, scale)
	v.rows = append(v.rows, posterior, raw)
	return ctx.Err()
}

// judge divides the row's difference by scale, the size of the largest entry, and compares it with the tolerance.
func judge(r *weightspace.ComparisonRow, scale float64) {
	if scale > 0 {
		r.Difference /= scale
	}
	r.OK = r.Difference <= r.Tolerance
}

// widen puts mean and sum into the row where they differ by more than the pair that is in it.
func widen(r *weightspace.ComparisonRow, mean, sum float64) {
	if d := math.Abs(mean - sum); d >= r.Difference || math.IsNaN(d) {
		r.WeightSpace, r.FunctionSpace, r.Difference = mean, sum, d
	}
}

// differenceRow compares two matrices, relative to the largest entry.
func differenceRow(name string, weight, function *mat.Dense) weightspace.ComparisonRow {
	r := weightspace.ComparisonRow{Quantity: name, Tolerance: solverTolerance}
	scale, n := 0.0, weight.RawMatrix().Rows
	for i := range n {
		for j, v := range weight.RawRowView(i) {
			scale = math.Max(scale, math.Abs(v))
			widen(&r, v, function.At(i, j))
		}
	}
	judge(&r, scale)
	return r
}
