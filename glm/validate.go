package glm

import (
	"context"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/linearize"
)

// DefaultTolerance is the difference between weight space and function space,
// relative to the largest entry, that Validate lets pass.
const DefaultTolerance = 1e-8

// A Comparison is the table of what two ways to the same posterior give.
type Comparison struct{ Rows []ComparisonRow }

// A ComparisonRow compares one quantity. For an array of numbers the two
// values are those of the entry that differs most.
type ComparisonRow struct {
	Quantity                   string
	WeightSpace, FunctionSpace float64
	// Difference is the largest absolute difference, divided by the largest
	// absolute entry; of a single number by its absolute value or one,
	// whichever is larger.
	Difference, Tolerance float64
	OK                    bool // Difference ≤ Tolerance; never for NaN
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

// Validate compares the posterior of function space with that of weight space,
// built on the same training examples, sites and prior: mean and covariance of
// the outputs at the examples of x, log det, and the evidences (E7) and (E8),
// or (E9) where both were refitted. The rows' names tell which. tolerance 0
// means DefaultTolerance.
//
// Without a refit both posteriors must have been built with Options.Mean =
// gp.LinearGaussian: with gp.Network both means are x.F, and comparing them
// says nothing. It panics where w was not, where only one is a refit, or where
// x does not fit.
func Validate(ctx context.Context, exact *gp.Exact, w *Weights, x *linearize.Batch, tolerance float64) (*Comparison, error) {
	switch {
	case exact.Refitted() != w.Refitted():
		panic("glm: one posterior is refitted and the other is not")
	case !w.ownMean():
		panic("glm: Validate wants posteriors with gp.LinearGaussian means")
	case tolerance < 0 || math.IsNaN(tolerance):
		panic("glm: negative tolerance")
	case tolerance == 0:
		tolerance = DefaultTolerance
	}
	v := &validation{tolerance: tolerance}
	if w.Refitted() {
		v.prefix = "refit "
	}
	if err := v.predictions(ctx, exact, w, x); err != nil {
		return nil, err
	}
	we, fe := w.EvidenceLinearGaussian(), exact.EvidenceLinearGaussian()
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

// A validation builds a Comparison.
type validation struct {
	Comparison
	prefix    string
	tolerance float64
}

// predictions compares means and covariances, a tile of examples at a time.
func (v *validation) predictions(ctx context.Context, exact *gp.Exact, w *Weights, x *linearize.Batch) error {
	const tile = 256
	var mean, cov worst
	for lo := 0; lo < x.Len(); lo += tile {
		if err := ctx.Err(); err != nil {
			return err
		}
		part := x.Slice(lo, min(lo+tile, x.Len()))
		var wm, wc, fm, fc mat.Dense
		if err := w.PredictTo(&wm, &wc, part); err != nil {
			return err
		}
		if err := exact.PredictTo(&fm, &fc, part); err != nil {
			return err
		}
		mean.add(&wm, &fm)
		cov.add(&wc, &fc)
	}
	v.array("mean", &mean)
	v.array("covariance", &cov)
	return nil
}

// worst is the entry of two arrays that differs most.
type worst struct {
	weight, function float64 // the entry
	difference       float64 // |weight − function|; +Inf where it is NaN
	scale            float64 // largest absolute entry of function space
}

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

func (v *validation) array(what string, w *worst) {
	v.row(what, w.weight, w.function, w.difference, w.scale)
}

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
