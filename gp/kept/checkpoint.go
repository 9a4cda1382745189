package kept

import (
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/mode"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/newton"
	"github.com/funcgp/funcgp/internal/saved"
	"github.com/funcgp/funcgp/store"
)

// checkpointVersion is the version of the sections that saveState writes.
const checkpointVersion = 1

// savedState is the JSON section of a checkpoint.
type savedState struct {
	Version         int
	N, C, P         int
	Steps, Products int
	Rough           bool
	Preconditioned  bool
	Most            int // rows of the preconditioner
	Taken           int // steps of conjugate gradients since it was made, or since the last Newton step
}

// loadState reads what saveState wrote, and makes the preconditioner anew.
func (p *Posterior) loadState(ctx context.Context, f *store.File, c *preconditioner, y *mat.Dense, lik gp.Likelihood) (*mode.State, error) {
	var s savedState
	r := f.Reader("checkpoint.")
	r.JSON("about", &s)
	saved.Version(r, s.Version, checkpointVersion)
	switch {
	case r.Err() != nil:
	case s.N != p.x.Len() || s.C != p.c || s.P != p.p:
		_ = r.Fail(otherRefit, "it is of a refit to %d training examples with %d outputs and %d parameters, and not %d, %d and %d", s.N, s.C, s.P, p.x.Len(), p.c, p.p)
	case s.Steps < 0 || s.Products < 0 || s.Most < 0 || s.Taken < 0:
		_ = r.Fail(otherRefit, saved.Impossible)
	}
	if r.Err() != nil {
		return nil, r.Err()
	}
	numbers, z, at := r.Floats("scalars", 4), r.Floats("z", s.P), r.Floats("f", s.N, s.C)
	targets := r.Floats("targets", len(dense.Flat(y)))
	var before []float64
	if s.Preconditioned {
		before = r.Floats("preconditioned", s.N, s.C)
	}
	if r.Err() == nil && !slices.Equal(targets, dense.Flat(y)) {
		_ = r.Fail(otherRefit, "the targets are others")
	}
	id := saved.Of(p.x, p.kernel)
	id.Remedy = otherRefit
	id.Check(ctx, r, "")
	if r.Err() != nil {
		return nil, r.Err()
	}
	if is := newton.LogLik(lik, y, at); !(math.Abs(is-numbers[3]) <= 1e-9*math.Max(1, math.Abs(is))) {
		return nil, r.Fail(otherRefit, "the likelihood is another: log p(y|f) is %v and not %v", is, numbers[3])
	}
	if s.Preconditioned {
		c.total, c.most, c.steps, c.f = numbers[2], s.Most, s.Taken, slices.Clone(before)
		sites, err := gp.NewSites(y, mat.NewDense(s.N, s.C, c.f), lik)
		if err != nil {
			return nil, err
		}
		if err := c.fill(ctx, sites); err != nil {
			return nil, err
		}
	}
	return &mode.State{Z: slices.Clone(z), F: slices.Clone(at), Steps: s.Steps, Products: s.Products, Move: numbers[0], Last: numbers[1], Rough: s.Rough}, nil
}

// otherRefit is the remedy for a checkpoint that does not fit.
const otherRefit = "resume with the data and options that it was made from, or start again without it"
