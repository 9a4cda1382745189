package weightspace

import (
	"context"
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/saved"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/store"
)

// savedVersion is the version of the sections that Save writes.
const savedVersion = 2 // fingerprints since 2

// savedPosterior is the JSON section of a stored Posterior.
type savedPosterior struct {
	Version  int
	N, C, P  int
	Refit    bool
	Mean     gp.Mean
	Warnings linearize.Warnings
}

// Save adds the posterior to a store, in sections whose names start with
// "weights.". They hold the factor of H̃, θ*, ẑ and θ̂ (8·P·(P + 3) bytes), the
// sites of the training examples (8·N·C·(2 + 2·C) bytes), the texts of the
// warnings, and fingerprints of the training examples, their model and the prior.
// They hold neither the training examples nor the prior: Load takes both.
//
// w.Save can be passed to store.Write, which returns the errors of writing.
func (w *Posterior) Save(to *store.Writer) error {
	n, c := w.sites.F.Dims()
	s := savedPosterior{Version: savedVersion, N: n, C: c, P: len(w.theta), Refit: w.refit, Mean: w.o.Mean, Warnings: w.warnings}
	to.JSON("weights.about", s)
	to.Floats("weights.scalars", []float64{w.h.logDet, w.gradient})
	to.Floats("weights.factor", w.h.data)
	to.Floats("weights.theta", w.theta)
	to.Floats("weights.z", w.z)
	to.Floats("weights.mean", w.mean)
	w.sites.Save(to, "weights.")
	return w.identity().Save(context.Background(), to, "weights.")
}

// identity holds the model, the training examples and the prior of the posterior,
// whose fingerprints Save writes and Load compares.
func (w *Posterior) identity() *saved.Identity {
	return &saved.Identity{Examples: w.x, Kernel: ntk.New(w.prior, w.theta, nil), Remedy: saved.OtherData}
}

// Load returns the posterior that Save wrote. b and prior must be the training
// examples and the prior that it was fitted with. θ* and Options.Mean come from
// the store, the other options from o. The result has the predictions, draws and
// evidences of the saved posterior bit for bit.
//
// The numbers stay in the store's memory, so the store must stay open.
//
// Like gp.Load it compares the model, the inputs and their order, the prior and,
// where o.Targets holds them, the targets. It fails with a *store.Error that names
// what differs, and where the store is damaged.
func Load(f *store.File, b *linearize.Batch, prior ntk.Prior, o *Options) (*Posterior, error) {
	var s savedPosterior
	r := f.Reader("weights.")
	r.JSON("about", &s)
	saved.Version(r, s.Version, savedVersion)
	switch {
	case r.Err() != nil:
	case s.N < 1 || s.C < 1 || s.P < 1 || s.Mean < gp.Network || s.Mean > gp.LinearGaussian:
		r.Fail(saved.WriteAgain, saved.Impossible)
	case s.N != b.Len() || s.C != b.Outputs() || s.P != b.P:
		r.Fail(saved.OtherData, "the saved posterior has %d training examples, %d outputs and %d parameters, the data %d, %d and %d",
			s.N, s.C, s.P, b.Len(), b.Outputs(), b.P)
	}
	w := &Posterior{x: b, prior: prior, o: o.withDefaults(), refit: s.Refit}
	w.o.Mean = s.Mean
	w.h.data = r.Floats("factor", s.P, s.P)
	w.theta, w.z, w.mean = r.Floats("theta", s.P), r.Floats("z", s.P), r.Floats("mean", s.P)
	scalars := r.Floats("scalars", 2)
	if w.sites = gp.LoadSites(r, s.N, s.C); r.Err() != nil {
		return nil, r.Err()
	}
	w.h.shared, w.h.sites = true, w.sites
	w.h.logDet, w.gradient = scalars[0], scalars[1]
	w.h.u = triangle(w.h.symmetric(s.P))
	w.warnings = append(w.warnings, s.Warnings...)
	w.setPrior()
	w.identity().Check(context.Background(), r, "")
	w.o.Targets.CheckSaved(r, w.sites)
	w.o.Targets = nil
	// θ̂ = μ₀ + Σ₀^½ ẑ
	if off := floats.Distance(w.thetaAt(w.z), w.mean, math.Inf(1)); !(off <= 1e-9*floats.Norm(w.mean, math.Inf(1))) {
		_ = r.Fail(saved.OtherData, "the posterior mean of the parameters under this prior differs from the saved one by up to %v", off)
	}
	if r.Err() != nil {
		return nil, r.Err()
	}
	return w, nil
}
