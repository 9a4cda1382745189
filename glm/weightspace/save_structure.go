package weightspace

import (
	"context"
	"errors"
	"slices"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/saved"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/store"
)

// structureVersion is the version of the sections that the posteriors with a
// structure write.
const structureVersion = 1

// savedStructure is the JSON section of a stored posterior with a structure.
type savedStructure struct {
	Version   int
	Structure string
	N, C, P   int
	Warnings  []string
}

// save adds what all structures share to a store, in sections whose names start with
// "structure.": θ*, the center, the determinant, the sites of the training examples
// (8·N·C·(2 + 2·C) bytes), the texts of the warnings, and fingerprints of the
// training examples, their model and the prior.
func (w *structured) save(to *store.Writer) error {
	s := savedStructure{Version: structureVersion, Structure: w.structure.String(), N: w.n, C: w.c, P: len(w.theta)}
	for _, warning := range w.warnings {
		s.Warnings = append(s.Warnings, warning.Error())
	}
	to.JSON("structure.about", s)
	to.Floats("structure.scalars", []float64{w.logDet})
	to.Floats("structure.theta", w.theta)
	to.Floats("structure.center", w.center)
	w.sites.Save(to, "structure.")
	return w.identity().Save(context.Background(), to, "structure.")
}

// identity holds the model, the training examples and the prior of the posterior.
func (w *structured) identity() *saved.Identity {
	return &saved.Identity{Examples: w.x, Kernel: ntk.New(w.prior, w.theta, nil), Remedy: saved.OtherData}
}

// LoadStructure returns the posterior that Weights.Save wrote, with the predictions,
// draws and evidences of the saved one bit for bit. x and prior must be the training
// examples and the prior that it was fitted with. θ* and the center come from the
// store, the other options from o. A *Posterior needs x to be one *linearize.Batch.
//
// The numbers stay in the store's memory, so the store must stay open.
//
// LoadStructure compares the model, the inputs and their order, the prior and, where
// o.Targets holds them, the targets. It fails with a *store.Error that names what
// differs, and where the store is damaged.
func LoadStructure(f *store.File, x linearize.Source, prior ntk.Prior, o *Options) (Weights, error) {
	if f.Has("weights.about") {
		b, ok := x.(*linearize.Batch)
		if !ok {
			return nil, f.Reader("weights.").Fail(saved.OtherData, "the saved posterior needs the training examples as one batch")
		}
		return asWeights(Load(f, b, prior, o))
	}
	r := f.Reader("structure.")
	w, structure := loadStructured(r, x, prior, o)
	if r.Err() != nil {
		return nil, r.Err()
	}
	w.structure = structure
	switch structure {
	case Diagonal:
		return asWeights(w.loadDiagonal(r))
	}
	return nil, r.Fail(saved.WriteAgain, saved.Impossible)
}

// loadStructured reads what all structures share.
func loadStructured(r *store.Reader, x linearize.Source, prior ntk.Prior, o *Options) (*structured, Structure) {
	var s savedStructure
	r.JSON("about", &s)
	saved.Version(r, s.Version, structureVersion)
	if r.Err() != nil {
		return nil, 0
	}
	structure, err := ParseStructure(s.Structure)
	switch {
	case err != nil || s.N < 1 || s.C < 1 || s.P < 1:
		r.Fail(saved.WriteAgain, saved.Impossible)
	case s.N != x.Len():
		r.Fail(saved.OtherData, "the saved posterior has %d training examples, the data %d", s.N, x.Len())
	default:
		b, err := example(context.Background(), x)
		if err != nil {
			r.Stop(err)
		} else if b.P != s.P || b.Outputs() != s.C {
			r.Fail(saved.OtherData, "the saved posterior has %d outputs and %d parameters, the model %d and %d", s.C, s.P, b.Outputs(), b.P)
		}
	}
	w := &structured{x: x, prior: prior, o: o.withDefaults(), n: s.N, c: s.C}
	w.o.Center, w.o.Mean = nil, gp.Network
	w.theta, w.center = r.Floats("theta", s.P), r.Floats("center", s.P)
	scalars := r.Floats("scalars", 1)
	if w.sites = gp.LoadSites(r, s.N, s.C); r.Err() != nil {
		return nil, 0
	}
	if slices.Equal(w.center, w.theta) {
		w.center = w.theta
	}
	w.logDet = scalars[0]
	for _, text := range s.Warnings {
		w.warnings = append(w.warnings, errors.New(text))
	}
	if w.identity().Check(context.Background(), r, ""); r.Err() != nil {
		return nil, 0
	}
	w.mu0, w.root = moments(prior, s.P)
	w.o.Targets.CheckSaved(r, w.sites)
	w.o.Targets = nil
	return w, structure
}

// Save adds the posterior to a store, in sections whose names start with
// "structure."; LoadStructure reads it. Besides what every structure has (θ*, the
// center and the sites, see gp.Sites.Save) it writes P numbers.
func (w *DiagonalPosterior) Save(to *store.Writer) error {
	to.Floats("structure.ggn", w.h)
	return w.save(to)
}

func (w *structured) loadDiagonal(r *store.Reader) (*DiagonalPosterior, error) {
	d := &DiagonalPosterior{structured: *w, h: r.Floats("ggn", len(w.theta))}
	if r.Err() != nil {
		return nil, r.Err()
	}
	was := w.logDet
	d.logDet = 0
	if err := d.prepare(); err != nil || d.logDet != was {
		return nil, r.Fail(saved.WriteAgain, saved.Impossible)
	}
	return d, nil
}
