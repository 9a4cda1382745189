package kept

import (
	"context"

	"gonum.org/v1/gonum/floats"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/mode"
	"github.com/funcgp/funcgp/internal/saved"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// Refit returns the posterior at the mode of the linearized model (E9), where
// theta is θ*. The gradient uses every row. Only the preconditioner of the conjugate
// gradients and the covariance use some of the rows, so the mode is that of gp.Refit.
// Sites, kept rows and b̃ all belong to the mode.
//
// Each Newton step takes one product with Jᵀ and two for each step of conjugate gradients, and
// with Options.Products, near the mode, one with J of the source. Warnings holds a warning of
// refit-gap where α differs from the residual at m + Kα. The errors are those of mode.Find and Fit.
func Refit(ctx context.Context, x linearize.Source, y *gp.Targets, prior ntk.Prior, theta []float64, o *Options) (*Posterior, error) {
	found, err := FindMode(ctx, x, y, prior, theta, mode.Close(y), o)
	if err != nil {
		return nil, err
	}
	return AtMode(ctx, x, y, prior, theta, found, o)
}

// AtMode returns the posterior that Refit returns, for a mode that FindMode has found. The search for the mode does not
// depend on Options.Strength, so it may be chosen by the sites at the mode.
func AtMode(ctx context.Context, x linearize.Source, y *gp.Targets, prior ntk.Prior, theta []float64, found *mode.Mode, o *Options) (*Posterior, error) {
	p := newFit(x, prior, theta, o)
	if err := p.measure(ctx); err != nil {
		return nil, err
	}
	p.o.Checkpoint, p.o.Resume, p.o.Near = nil, nil, nil
	p.mean.Warnings = found.Warnings
	if err := p.mean.SetMode(ctx, p.products(), prior, found.Theta, found.Sites, y); err != nil {
		return nil, err
	}
	if err := p.keep(ctx, p.mean.Sites); err != nil {
		return nil, err
	}
	return p.posterior(ctx)
}

// FindMode returns the mode that Refit finds, without a covariance. The search ends at the given
// norm of the gradient (mode.Options.Gradient). The errors are those of Refit.
func FindMode(ctx context.Context, x linearize.Source, y *gp.Targets, prior ntk.Prior, theta []float64, gradient float64, o *Options) (*mode.Mode, error) {
	p := newFit(x, prior, theta, o)
	if err := p.measure(ctx); err != nil {
		return nil, err
	}
	// Search for the mode with a preconditioner of the strongest rows.
	pre := &preconditioner{p: p}
	search := &mode.Options{
		Outputs: p.o.Outputs, Precondition: pre.at, Gradient: gradient,
		MaxIter: p.o.MaxNewton, Limits: p.o.Limits, Start: p.o.Start,
	}
	if p.o.Products != nil {
		search.Products = p.products()
	}
	if p.o.Checkpoint != nil || p.o.Resume != nil {
		fit, err := saved.NewFit(ctx, "kept.Refit", checkpointVersion, p.x.Len(), p.c, y.Y, y.Weights, saved.Of(p.x, p.kernel))
		if err != nil {
			return nil, err
		}
		if p.o.Checkpoint != nil {
			search.State = func(s *mode.State) error { return p.write(fit, s, pre, y.LogLik(s.F)) }
		}
		if p.o.Resume != nil {
			if search.Resume, err = p.read(ctx, fit, pre, y); err != nil {
				return nil, err
			}
		}
	}
	if near := p.o.Near; near != nil {
		p.o.Near = nil // so that its memory is free once the caller drops it
		search.Start = make([]float64, p.p)
		prior.MeanTo(search.Start)
		floats.Add(search.Start, near.Weights())
	}
	return mode.Find(ctx, p.x, y, prior, theta, search)
}
