package weightspace

import (
	"context"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/linearize"
)

// DefaultTolerance is the default tolerance of Validate for the difference between weight space and function space,
// relative to the largest entry.
const DefaultTolerance = 1e-8

// A Comparison is a table of the differences between weight space and function space, one quantity a row.
type Comparison struct{ Rows []ComparisonRow }

// A ComparisonRow compares one quantity, which is an array or a single number.
type ComparisonRow struct {
	Quantity string
	// WeightSpace and FunctionSpace are both values. For an array they are the entries that differ most.
	WeightSpace, FunctionSpace float64
	// Difference is relative. For an array it is the largest difference over the largest absolute entry. For a
	// single number it is the difference over the larger of 1 and the absolute value.
	Difference, Tolerance float64
	OK                    bool // Difference ≤ Tolerance; false for NaN
}

// OK tells whether every row is within its tolerance.
func (c *Comparison) OK() bool {
	for _, r := range c.Rows {
		if !r.OK {
			return false
		}
	}
	return true
}

// Validate compares a posterior in function space with one in weight space. Both must have the same training
// examples, sites and prior. It compares the mean and the covariance of the outputs at the examples of x, the log
// determinant, and the evidences (E7) and (E8), or (E9) after a refit. A tolerance of 0 means DefaultTolerance.
//
// Without a refit, both posteriors must have Options.Mean = gp.LinearGaussian. With gp.Network both means are x.F,
// and their comparison would say nothing. Validate panics where w has another mean, where only one posterior is a
// refit, and where x has other numbers of outputs or parameters.
//
// The error is an error of PredictTo or ctx.Err(). The number of examples compared is reported to Options.Progress
// of w.
func Validate(ctx context.Context, exact *gp.Exact, w *Posterior, x *linearize.Batch, tolerance float64) (*Comparison, error) {
	switch {
	case exact.Refitted() != w.Refitted():
		panic("weightspace: one posterior is refitted and the other is not")
	case !w.usesMean():
		panic("weightspace: Validate wants posteriors with gp.LinearGaussian means")
	case tolerance < 0 || math.IsNaN(tolerance):
		panic("weightspace: negative tolerance")
	case tolerance == 0:
		tolerance = DefaultTolerance
	}
	v := &validation{tolerance: tolerance}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if w.Refitted() {
		v.prefix = "refit "
	}
	// Compare means and covariances in tiles of 256 examples, or fewer where the triangular solves of exact would
	// take more than 4e10 multiplications, so that progress is reported often.
	solve := float64(w.n*w.c) * float64(w.n*w.c) / 2
	tile := int(math.Max(1, math.Min(256, 4e10/solve/float64(w.c))))
	var mean, cov worst
	w.o.Show(StageComparison, 0, x.Len())
	for lo := 0; lo < x.Len(); lo += tile {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		part := x.Slice(lo, min(lo+tile, x.Len()))
		var wm, wc, fm, fc mat.Dense
		if err := w.PredictTo(ctx, &wm, &wc, part); err != nil {
			return nil, err
		}
		if err := exact.PredictTo(ctx, &fm, &fc, part); err != nil {
			return nil, err
		}
		mean.add(&wm, &fm)
		cov.add(&wc, &fc)
		w.o.Show(StageComparison, lo+part.Len(), x.Len())
	}
	v.row("mean", mean.weight, mean.function, mean.difference, mean.scale)
	v.row("covariance", cov.weight, cov.function, cov.difference, cov.scale)
	we := w.EvidenceLinearGaussian()
	fe, err := exact.EvidenceLinearGaussian(ctx)
	if err != nil {
		return nil, err
	}
	v.number("log det", we.LogDet, fe.LogDet)
	if w.Refitted() {
		v.number("log evidence (E9)", w.EvidenceRefit().Value, exact.EvidenceRefit().Value)
	} else {
		at := w.EvidenceAtTheta()
		v.number("log evidence at θ* (E7)", at.Value, exact.EvidenceAtTheta(at.Scatter).Value)
		v.number("log evidence, linear-Gaussian (E8)", we.Value, fe.Value)
	}
	return &v.Comparison, ctx.Err()
}

// A validation collects the rows of a Comparison.
type validation struct {
	Comparison
	prefix    string // start of the name of each quantity
	tolerance float64
}

// worst is the entry that differs most between two arrays of weight space and function space.
type worst struct {
	weight, function float64 // both values
	difference       float64 // |weight − function|; +Inf where it is NaN
	scale            float64 // largest absolute entry of function space
}

// add compares the entries of one more tile.
func (w *worst) add(weight, function *mat.Dense) {
	n, _ := function.Dims()
	for i := range n {
		a, b := weight.RawRowView(i), function.RawRowView(i)
		for j := range b {
			d := math.Abs(a[j] - b[j])
			if math.IsNaN(d) {
				d = math.Inf(1)
			}
			if d >= w.difference {
				w.weight, w.function, w.difference = a[j], b[j], d
			}
			w.scale = math.Max(w.scale, math.Abs(b[j]))
		}
	}
}

// number adds a row for a single number.
func (v *validation) number(what string, weight, function float64) {
	v.row(what, weight, function, math.Abs(weight-function), math.Max(1, math.Abs(function)))
}

func (v *validation) row(what string, weight, function, difference, scale float64) {
	if difference > 0 {
		difference /= scale
	}
	v.Rows = append(v.Rows, ComparisonRow{
		Quantity: v.prefix + what, WeightSpace: weight, FunctionSpace: function,
		Difference: difference, Tolerance: v.tolerance, OK: difference <= v.tolerance,
	})
}
