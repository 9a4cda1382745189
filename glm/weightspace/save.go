package weightspace

import (
	"errors"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/store"
)

// savedVersion is the version of the sections that Save writes.
const savedVersion = 1

// savedPosterior is the JSON section of stored Weights.
type savedPosterior struct {
	Version  int
	N, C, P  int
	Refit    bool
	Mean     gp.Mean
	Warnings []string
}

const otherData = "give the network, its parameters, the prior and the examples that it was fitted with"

// Save adds the posterior to a store, in sections whose names start with
// "weights.". They hold the factor of H̃, θ*, ẑ and θ̂, 8·P·(P + 3) bytes, the
// sites of the training examples, 8·N·C·(2 + 2·C) bytes, and the text of the
// warnings. They do not hold the training examples or the prior, which
// LoadWeights asks for.
//
// w.Save can be passed to store.Write. It always returns nil; store.Write
// returns the errors of writing.
func (w *Posterior) Save(to *store.Writer) error {
	n, c := w.sites.F.Dims()
	s := savedPosterior{Version: savedVersion, N: n, C: c, P: len(w.theta), Refit: w.refit, Mean: w.o.Mean}
	for _, warning := range w.warnings {
		s.Warnings = append(s.Warnings, warning.Error())
	}
	to.JSON("weights.about", s)
	to.Floats("weights.scalars", []float64{w.h.logDet, w.gradient})
	to.Floats("weights.factor", w.h.data)
	to.Floats("weights.theta", w.theta)
	to.Floats("weights.z", w.z)
	to.Floats("weights.mean", w.mean)
	w.sites.Save(to, "weights.")
	return nil
}

// Load returns the posterior that Save wrote. b and prior must be the
// training examples and the prior that it was fitted with. θ* is read from the
// store, and so is the Mean of the options; the other fields of o are used. The
// result predicts, draws and has evidences bit for bit as the saved one.
//
// The numbers stay in the store's memory, so the store must stay open.
//
// It fails with a *store.Error where the store is damaged, where the numbers of
// examples, outputs and parameters are not those of b, and where θ̂ is not
// μ₀ + Σ₀^½ ẑ with the given prior. It does not notice other examples of the
// same number; the caller must give the right ones.
func Load(f *store.File, b *linearize.Batch, prior ntk.Prior, o *Options) (*Posterior, error) {
	var s savedPosterior
	r := f.Reader("weights.")
	r.JSON("about", &s)
	switch {
	case r.Err() != nil:
	case s.Version != savedVersion:
		r.Fail("use the program that wrote it", "holds a weight-space posterior of version %d, this program reads version %d", s.Version, savedVersion)
	case s.N < 1 || s.C < 1 || s.P < 1 || s.Mean < gp.Network || s.Mean > gp.LinearGaussian:
		r.Fail("write it again", "holds an impossible posterior")
	case s.N != b.Len() || s.C != b.Outputs() || s.P != b.P:
		r.Fail(otherData, "the saved posterior has %d training examples, %d outputs and %d parameters, the data %d, %d and %d",
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
	w.h.borrowed, w.h.sites = true, w.sites
	w.h.logDet, w.gradient = scalars[0], scalars[1]
	w.h.u = blas64.Triangular{Uplo: blas.Upper, Diag: blas.NonUnit, N: s.P, Stride: s.P, Data: w.h.data}
	for _, text := range s.Warnings {
		w.warnings = append(w.warnings, errors.New(text))
	}
	w.setPrior()
	// θ̂ = μ₀ + Σ₀^½ ẑ
	if off := floats.Distance(w.thetaAt(w.z), w.mean, math.Inf(1)); !(off <= 1e-9*floats.Norm(w.mean, math.Inf(1))) {
		return nil, r.Fail(otherData, "the mean of the parameters under the prior is off the saved one by up to %v", off)
	}
	return w, nil
}
