package funcgp

import (
	"context"
	"runtime/debug"
	"time"

	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/linearize"
)

// exact conditions on all training rows. A refit moves to the mode of the linearized model (E9).
func (f *fit) exact(ctx context.Context) (*solution, error) {
	if err := f.prepare(ctx, true, nil); err != nil {
		return nil, err
	}
	batch := f.source.(*linearize.Batch)
	if f.asked.Prior.Tune != "" {
		// Each posterior takes the memory and the start of its Newton steps from the one before.
		var last *gp.Exact
		var at float64 // its precision
		if err := f.tuneBy(ctx, func(ctx context.Context, g *fit) (_ *solution, err error) {
			before := last
			if last = nil; before == nil { // it cannot be used again, also where this fails
				last, err = g.exactDual(ctx, batch, nil)
			} else {
				last, err = before.Rescale(ctx, g.kernel, at/g.precision, f.problem.TrainTargets())
			}
			if err != nil {
				return nil, err
			}
			at = g.precision
			return g.posterior(last), nil
		}); err != nil {
			return nil, err
		}
		debug.FreeOSMemory() // so that the memory of the candidates counts as free
	}
	// What follows the kernel is counted as the factorization.
	formed := time.Now()
	dual, err := f.exactDual(ctx, batch, &formed)
	if err == nil && !f.atTheta {
		dual, err = f.matchExact(ctx, dual)
	}
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f.con.EndPartAt("kernel", formed)
	q := f.posterior(dual)
	q.exact = dual
	return q, nil
}

// exactDual forms the kernel and fits or refits. It sets formed, unless nil, to the time when the kernel was
// complete.
func (f *fit) exactDual(ctx context.Context, batch *linearize.Batch, formed *time.Time) (*gp.Exact, error) {
	o := &gp.Options{Mean: f.meanAtTheta(), Limits: linearize.Limits{Memory: f.problem.Memory, Progress: func(stage string, done, total int) {
		if stage == gp.StageKernel && done == total && formed != nil {
			*formed = time.Now()
		}
		f.con.Show(stage, done, total)
	}}}
	if !f.atTheta {
		return gp.Refit(ctx, f.kernel, batch, f.problem.TrainTargets(), o)
	}
	return gp.Fit(ctx, f.kernel, batch, f.sites, o)
}

// parametersDual fits or refits by the precision of the parameters.
func (f *fit) parametersDual(ctx context.Context) (*gp.Posterior, error) {
	o := &weightspace.Options{Mean: f.meanAtTheta(), Limits: f.problem.Bounds(f.con)}
	if !f.atTheta {
		return weightspace.RefitSums(ctx, f.source, f.problem.TrainTargets(), f.prior, f.theta, f.near, o)
	}
	return weightspace.FitSums(ctx, f.source, f.sites, f.prior, f.theta, o)
}

// parameters conditions on all training rows by the precision of the parameters, without forming their kernel.
func (f *fit) parameters(ctx context.Context) (*solution, error) {
	if err := f.prepare(ctx, f.problem.KeepsJacobian(), f.settle); err != nil {
		return nil, err
	}
	if err := f.tuneBy(ctx, func(ctx context.Context, g *fit) (*solution, error) {
		dual, err := g.parametersDual(ctx)
		if err != nil {
			return nil, err
		}
		return g.posterior(dual), nil
	}); err != nil {
		return nil, err
	}
	dual, err := f.parametersDual(ctx)
	if err != nil {
		return nil, err
	}
	return f.posterior(dual), f.con.EndPart(ctx, "kernel")
}
