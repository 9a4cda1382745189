package cg

import (
	"context"
	"math"
	"sync"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/jacobian"
	"github.com/funcgp/funcgp/internal/saved"
	"github.com/funcgp/funcgp/internal/sites"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/store"
)

// savedVersion is the version of the sections that Save writes.
const savedVersion = 2 // fingerprints since 2

// savedPosterior is the JSON section of a stored posterior.
type savedPosterior struct {
	saved.About
	Tolerance        float64
	MaxSteps, Probes int
	Seed             uint64
	Rank, MostRank   int  // features of the preconditioner, and how many were planned
	Columns          int  // right-hand sides solved for at once
	Kept             bool // the Jacobian of the training examples is in memory
	Steps            int  // of the dual vector's solves
	LogDet           *LogDet
}

// Save adds the posterior to a store, in sections whose names start with
// "cg.". It saves the sites, dual vectors and preconditioner,
// 8·N·C·(6 + 3·C + Rank) bytes and 8·(Rank² + P) more, the log determinant if it
// is known, the warnings except those of predictions, and the
// fingerprints of the training examples, their model and the prior. It does not
// save the examples and the kernel, which Load must be given.
//
//	err := store.Write(path, kind, version, post.Save) // see store.Write
//
// Save returns an error only where the fingerprints cannot be computed;
// store.Write returns the errors of writing. Save reads the inputs once. For
// training examples that are neither a linearize.InputSource nor in memory, it
// linearizes them.
func (p *Posterior) Save(w *store.Writer) error {
	p.mu.Lock()
	det, warnings := p.det, p.warnings
	p.mu.Unlock()
	f, pre := p.features, p.sys.pre
	about := saved.About{Version: savedVersion, N: p.data.n, C: p.data.c, P: p.data.p, Refit: p.refit, Mean: int(p.o.Mean), Warnings: warnings}
	w.JSON("cg.about", savedPosterior{About: about, Tolerance: p.o.Tolerance, MaxSteps: p.o.MaxSteps, Probes: p.o.Probes, Seed: p.o.Seed,
		Rank: f.phi.Cols, MostRank: f.most, Columns: p.columns, Kept: p.data.whole != nil, Steps: p.solve.Steps, LogDet: det})
	saved.Save(w, "cg.", p.fields(pre, p.data.n*p.data.c, p.data.c, f.phi.Cols))
	w.FloatRows("cg.features", func(yield func([]float64) bool) {
		for i := range f.phi.Rows {
			if f.phi.Cols == 0 || !yield(dense.Row(f.phi, i)) {
				return
			}
		}
	})
	w.FloatRows("cg.image", func(yield func([]float64) bool) {
		for _, block := range p.jacobianAlpha.Blocks {
			if !yield(block.(*linearize.Full).J.RawRowView(0)) {
				return
			}
		}
	})
	p.sites.Save(w, "cg.")
	if pass := p.data.pass; pass != nil {
		pass.Lock()
		defer pass.Unlock()
	}
	return saved.Of(p.data.x, p.data.k).Save(context.Background(), w, "cg.")
}

// fields are the dual vectors of n outputs, c of each example, and what is kept of the features.
func (p *Posterior) fields(pre *preconditioner, n, c, rank int) []saved.Field {
	return []saved.Field{
		saved.Scalars("scalars", &p.meanBound, &p.solve.Residual, &pre.logDet),
		saved.Floats("prior", &p.prior, n), saved.Floats("b", &p.pseudo, n), saved.Floats("alpha", &p.alpha, n), saved.Floats("kalpha", &p.kalpha, n),
		saved.Floats("rest", &p.features.rest, n, c), saved.Floats("factor", &pre.u.Data, rank, rank),
	}
}

// possible tells whether a posterior can have these sizes and options.
func (s *savedPosterior) possible() bool {
	return saved.Size(s.P) && saved.Size(s.MaxSteps) && s.Probes > 1 && saved.Size(s.Probes) && saved.Size(s.Columns) &&
		s.Tolerance > 0 && s.Tolerance < 1 && s.Rank >= 0 && s.Rank <= s.MostRank && s.MostRank <= s.N*s.C
}

// Load returns the posterior that Save wrote, given the kernel and the training
// examples that it was fitted with. It solves nothing, but reads the inputs of x
// once and linearizes x once. It uses MaxMemory, Progress and Targets of
// o; the other options are those of the saved posterior. Predictions are
// bit-identical to those of the saved posterior where at least as much memory is
// allowed, and otherwise the same within the tolerance.
//
// The numbers stay in the store's memory, so the store must stay open.
//
// Load first compares the fingerprints of the model, the inputs and their order
// and the prior, and the targets if o.Targets is not nil, all as gp.Load does.
// Then it compares the prior means of all training examples, within 1e-9. Where
// something differs, or the file is damaged or holds sections of impossible sizes,
// the error is a *store.Error whose Problem names it. Load fails with a
// *gp.MemoryError where the solves need more memory than allowed, and with
// ctx.Err().
func Load(ctx context.Context, f *store.File, k MulKernel, x linearize.Source, o *Options) (*Posterior, error) {
	var s savedPosterior
	r, d := f.Reader("cg."), o.withDefaults()
	r.JSON("about", &s)
	s.Check(r, savedVersion)
	if r.Err() == nil && !s.possible() {
		_ = r.Fail(saved.WriteAgain, saved.Impossible)
	}
	if s.Belongs(r, x.Len(), -1, -1); r.Err() != nil {
		return nil, r.Err()
	}
	d.Mean, d.Tolerance, d.MaxSteps, d.Probes, d.Seed = gp.Mean(s.Mean), s.Tolerance, s.MaxSteps, s.Probes, s.Seed
	p := &Posterior{o: d, refit: s.Refit, det: s.LogDet, features: &features{most: s.MostRank}}
	p.read(r, &s)
	image := r.Floats("image", s.P)
	saved.Of(x, k).Check(ctx, r, "")
	d.Targets.CheckSaved(r, p.sites)
	if r.Err() != nil {
		return nil, r.Err()
	}
	p.o.Targets = nil
	if err := p.attach(ctx, r, k, x, &s); err != nil {
		return nil, err
	}
	// Make the saved αᵀJ a batch with the blocks of the training examples.
	one, err := p.data.gather(ctx, []int{0})
	if err != nil {
		return nil, err
	}
	sum := jacobian.Sum{}
	sum.Reset(one, 1)
	for _, part := range sum.Parts {
		image = image[copy(part.Data, image):]
	}
	p.jacobianAlpha = sum.Batch
	return p, nil
}

// read reads all that does not depend on the training examples.
func (p *Posterior) read(r *store.Reader, s *savedPosterior) {
	n, pre := s.N*s.C, new(preconditioner)
	saved.Load(r, p.fields(pre, n, s.C, s.Rank))
	phi := r.Floats("features", n, s.Rank)
	if p.sites = gp.LoadSites(r, s.N, s.C); r.Err() != nil {
		return
	}
	p.features.phi = dense.In(phi, n, s.Rank)
	p.local = sites.Of(p.sites)
	p.solve.Steps, pre.phi = s.Steps, p.features.phi
	if s.Rank > 0 {
		pre.u = blas64.Triangular{Uplo: blas.Upper, Diag: blas.NonUnit, N: s.Rank, Stride: s.Rank, Data: pre.u.Data}
	}
	p.sys = &system{root: newSiteBlocks(p.local.Root, s.C), pre: pre}
	p.warnings = append(p.warnings, s.Warnings...)
}

// attach passes over the training examples and connects the posterior with them.
// Later solves use as many columns as the saved posterior did, or fewer where
// memory is short.
func (p *Posterior) attach(ctx context.Context, r *store.Reader, k MulKernel, x linearize.Source, s *savedPosterior) error {
	o := p.o
	if o.Rank = s.MostRank; o.Rank == 0 {
		o.Rank = -1
	}
	data, start, plan, err := newData(ctx, k, x, &o)
	if err != nil {
		return err
	}
	if s.Belongs(r, data.n, data.c, data.p); r.Err() != nil {
		return r.Err()
	}
	// m = F + J(μ₀ − θ*) (E2), whose rounding error is relative to the largest entry
	if off := floats.Distance(start.prior, p.prior, math.Inf(1)); !(off <= 1e-9*floats.Norm(p.prior, math.Inf(1))) {
		return r.Fail(saved.OtherData, "the prior means of the training examples differ from the saved ones by up to %v", off)
	}
	if !s.Kept && data.whole != nil { // products with the kernel pass over x
		data.whole, data.chunks, data.pass = nil, linearize.Rebatch(x, linearize.Tile(data.c)), new(sync.Mutex)
	}
	p.data, p.columns = data, min(plan.columns, max(s.C, s.Columns))
	p.features.d, p.sys.data, p.sys.pre.root, p.sys.o = data, data, p.sys.root, &p.o
	return nil
}
