package kept

import (
	"context"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/saved"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/store"
)

// savedVersion is the version of the sections that Save writes.
const savedVersion = 1

// Save adds the posterior to a store, in sections whose names start with "kept." and
// "thinned.". It saves the sites, dual vectors and weights, what gp.Thinned.Save does, the
// text of the warnings, and the fingerprints of the training examples, their model and the
// prior: SavedBytes says how much that is. It does not save the examples, which Load must
// be given, nor their Jacobian.
//
// Most of it is the factor of the kept rows, 8 bytes times the square of their number. To
// compute it again takes the kernel of these rows, as long as the fit itself; read from a
// file it is in memory at once.
//
//	err := store.Write(path, kind, version, post.Save) // see store.Write
//
// Save returns an error only where the fingerprints cannot be computed; store.Write
// returns the errors of writing. Save reads the inputs once. For training examples that
// are neither a linearize.InputSource nor in memory, it linearizes them.
func (p *Posterior) Save(w *store.Writer) error {
	w.JSON("kept.about", saved.About{Version: savedVersion, N: p.x.Len(), C: p.c, P: p.p, Refit: p.refit, Mean: int(p.o.Mean), Warnings: p.warnings})
	saved.Save(w, "kept.", p.fields(p.x.Len()))
	p.sites.Save(w, "kept.")
	if err := p.thin.Save(w); err != nil {
		return err
	}
	return saved.Of(p.x, p.kernel).Save(context.Background(), w, "kept.")
}

// SavedBytes returns about how many bytes Save adds: 8·N·C·(4 + 2·C) + 8·P, and
// 8·n·(n + C + 7) for n kept rows.
func (p *Posterior) SavedBytes() int64 {
	n, c, rows := int64(p.x.Len()), int64(p.c), int64(p.Kept().Len())
	return 8 * (n*c*(4+2*c) + int64(p.p) + rows*(rows+c+7))
}

// fields are the dual vectors and weights of n training examples.
func (p *Posterior) fields(n int) []saved.Field {
	return []saved.Field{saved.Scalars("scalars", &p.scatter, &p.distance),
		saved.Floats("alpha", &p.alpha, n, p.c), saved.Floats("b", &p.pseudo, n, p.c), saved.Floats("weights", &p.weights, p.p)}
}

// Load returns the posterior that Save wrote, given the training examples, the prior and
// θ*. It takes a backward pass for each kept row, for their Jacobian, and reads the inputs of
// x once. It uses
// MaxMemory, Workers, Progress and Targets of o; the other options are those of the saved
// posterior, which it answers as, bit for bit.
//
// The numbers stay in the store's memory, so the store must stay open.
//
// Load compares the model, the inputs and their order, the prior and, where o.Targets is
// set, the targets, as gp.Load does. It fails with a *store.Error that names what differs,
// or what is damaged or of an impossible size.
func Load(ctx context.Context, f *store.File, x linearize.Source, prior ntk.Prior, theta []float64, o *Options) (*Posterior, error) {
	var s saved.About
	p := newPosterior(x, prior, theta, o)
	r := f.Reader("kept.")
	r.JSON("about", &s)
	s.Check(r, savedVersion)
	s.Belongs(r, x.Len(), -1, len(theta))
	p.c, p.refit, p.o.Mean = s.C, s.Refit, gp.Mean(s.Mean)
	saved.Load(r, p.fields(s.N))
	p.sites = gp.LoadSites(r, s.N, s.C)
	saved.Of(x, p.kernel).Check(ctx, r, "")
	p.o.Targets.CheckSaved(r, p.sites)
	if r.Err() != nil {
		return nil, r.Err()
	}
	p.o.Targets = nil
	p.warnings = append(p.warnings, s.Warnings...)
	var err error
	if p.thin, err = gp.LoadThinned(ctx, f, p.kernel, x, p.sites, p.exactOptions()); err != nil {
		return nil, err
	}
	p.setMove()
	return p, nil
}
