package sparse

import (
	"context"
	"slices"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// FitSubset returns the exact posterior given the inducing examples z alone; s are
// their sites. x holds all training examples, of which z.Rows are the inducing
// ones; none is read. Predictions are explained over all of x, and the terms of
// examples outside the subset are zero. Inducing pairs are an
// error, because a site couples the outputs of an example.
func FitSubset(ctx context.Context, k ntk.Kernel, x linearize.Source, s *gp.Sites, z *Inducing, o *Options) (*Posterior, error) {
	if err := checkSubset(x, z); err != nil {
		return nil, err
	}
	p, err := Fit(ctx, k, z.Batch, s, z.alone(), o)
	if err != nil {
		return nil, err
	}
	return p.withinData(x, z), nil
}

// RefitSubset is Refit to the inducing examples z alone; y are their targets.
func RefitSubset(ctx context.Context, k ntk.Kernel, x linearize.Source, y *gp.Targets, z *Inducing, o *Options) (*Posterior, error) {
	if err := checkSubset(x, z); err != nil {
		return nil, err
	}
	p, err := Refit(ctx, k, z.Batch, y, z.alone(), o)
	if err != nil {
		return nil, err
	}
	return p.withinData(x, z), nil
}

// checkSubset returns an error for inducing elements that are no examples of x.
func checkSubset(x linearize.Source, z *Inducing) error {
	if z.Len() == 0 {
		return &CountError{M: 0, N: x.Len()}
	}
	if z.Pairs() {
		return errSubsetPairs
	}
	if z.Rows == nil {
		panic("sparse: a subset of data needs the rows of its examples")
	}
	return checkInducing(z, x.Len())
}

// alone returns the inducing examples without their rows, as those of a posterior
// whose data are the inducing examples.
func (z *Inducing) alone() *Inducing { return &Inducing{Batch: z.Batch} }

// withinData turns the posterior p, whose data are the inducing examples z, into one
// of a subset of x. p is a projected process with Q = K.
func (p *Posterior) withinData(x linearize.Source, z *Inducing) *Posterior {
	n, c := x.Len(), p.b.c
	b := *p.b
	b.z = z
	set := p.TrainingSet().Subset(x, z.Rows)
	mean := gp.DualMean{Data: x, Set: &set, Warnings: p.Warnings()[len(p.Projected.Warnings()):], Alpha: make([]float64, n*c), Pseudo: make([]float64, n*c)}
	at := slices.Repeat([]int{-1}, n)
	for i, r := range z.Rows {
		at[r] = i
		copy(mean.Pseudo[r*c:(r+1)*c], p.PseudoTargets()[i*c:])
		copy(mean.Alpha[r*c:(r+1)*c], p.Alpha()[i*c:])
	}
	mean.Sites = p.Sites().Rows(at)
	mean.Sites.LogLik = p.Sites().LogLik
	q := p.Projected.with(&b, true).over(mean)
	q.subset = p
	return q
}

// with returns the posterior with the inducing examples of b, of a subset of data or not.
func (p *Projected) with(b *basis, ofSubset bool) *Projected {
	return &Projected{b: b, o: p.o, sums: p.sums, refit: p.refit, ofSubset: ofSubset, u: p.u, w: p.w, v: p.v, logDet: p.logDet, tile: p.tile}
}
