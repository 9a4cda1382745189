package train

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/optimize"

	"github.com/funcgp/funcgp/linearize"
)

// lbfgs improves theta in place by L-BFGS until the gradient is below Options.Tolerance, the iterations are used
// up, or no step lowers the objective.
func (o *objective) lbfgs(ctx context.Context, theta []float64, x, y *mat.Dense, res *Result) error {
	if o.opt.LBFGS < 0 {
		return nil
	}
	var failed error
	grad, at, value := make([]float64, len(theta)), make([]float64, len(theta)), math.NaN()
	best, bestAt := math.Inf(1), append([]float64(nil), theta...)
	eval := func(p []float64) {
		if floats.Equal(p, at) && !math.IsNaN(value) {
			return
		}
		copy(at, p)
		if failed != nil {
			return
		}
		v, _, err := o.eval(ctx, grad, p, x, y, 1)
		if err != nil {
			// A trial step may leave the range of float64; refuse it.
			v = math.Inf(1)
			if ctx.Err() != nil {
				failed = ctx.Err()
			}
		}
		if value = v; v < best {
			best = v
			copy(bestAt, p)
		}
	}
	problem := optimize.Problem{
		Func:   func(p []float64) float64 { eval(p); return value },
		Grad:   func(g, p []float64) { eval(p); copy(g, grad) },
		Status: func() (optimize.Status, error) { return optimize.NotTerminated, failed },
	}
	settings := &optimize.Settings{MajorIterations: o.opt.LBFGS, GradientThreshold: o.opt.Tolerance, Converger: &optimize.FunctionConverge{Absolute: 1e-13, Relative: 1e-13, Iterations: 20},
		Recorder: recorder(func(it int, f float64) { o.report(StageLBFGS, min(it, o.opt.LBFGS), o.opt.LBFGS, f) })}
	result, err := optimize.Minimize(problem, theta, settings, &optimize.LBFGS{Store: 50})
	if failed != nil {
		return failed
	}
	if err != nil && result == nil {
		return fmt.Errorf("train: L-BFGS: %w", err)
	}
	if err != nil {
		res.Warnings = append(res.Warnings, linearize.NewWarning("training-stopped", math.NaN(), math.NaN(), "Train on, or begin with more epochs of Adam.",
			"L-BFGS stopped early: %v. The network may not be at an optimum.", err))
	}
	res.Iterations = result.MajorIterations
	copy(theta, bestAt)
	return nil
}

// recorder reports each major iteration.
type recorder func(iteration int, f float64)

func (recorder) Init() error { return nil }

func (r recorder) Record(l *optimize.Location, op optimize.Operation, s *optimize.Stats) error {
	if op == optimize.MajorIteration {
		r(s.MajorIterations, l.F)
	}
	return nil
}
