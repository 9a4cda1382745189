package weightspace

import (
	"context"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

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
	Blocks    []savedBlock `json:",omitempty"`
	Warnings  linearize.Warnings
}

// A savedBlock says of a block of the precision what it is called and how many
// parameters it has.
type savedBlock struct {
	Name string
	Size int
}

// save adds what all structures share to a store, in sections whose names start with
// "structure.": θ*, the center, the determinant, the sites of the training examples
// (8·N·C·(2 + 2·C) bytes), the texts of the warnings, and fingerprints of the
// training examples, their model and the prior.
func (w *structured) save(to *store.Writer, blocks ...savedBlock) error {
	s := savedStructure{Version: structureVersion, Structure: w.structure.String(), N: w.n, C: w.c, P: len(w.theta), Blocks: blocks, Warnings: w.warnings}
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
	w, about := loadStructured(r, x, prior, o)
	if r.Err() != nil {
		return nil, r.Err()
	}
	switch w.structure {
	case Diagonal:
		return asWeights(w.loadDiagonal(r))
	case KFAC, KFACDamped, KFACDampedMean, Chain:
		return asWeights(w.loadKronecker(r))
	}
	return asWeights(w.loadBlocks(r, about))
}

// loadStructured reads what all structures share.
func loadStructured(r *store.Reader, x linearize.Source, prior ntk.Prior, o *Options) (*structured, *savedStructure) {
	var s savedStructure
	r.JSON("about", &s)
	saved.Version(r, s.Version, structureVersion)
	if r.Err() != nil {
		return nil, nil
	}
	structure, err := ParseStructure(s.Structure)
	if err != nil || s.N < 1 || s.C < 1 || s.P < 1 {
		_ = r.Fail(saved.WriteAgain, saved.Impossible)
		return nil, nil
	}
	b, err := someExamples(context.Background(), x)
	switch {
	case err != nil:
		r.Stop(err)
	case s.N != x.Len() || s.C != b.Outputs() || s.P != b.P:
		_ = r.Fail(saved.OtherData, "the saved posterior has %d training examples, %d outputs and %d parameters, the data %d, %d and %d",
			s.N, s.C, s.P, x.Len(), b.Outputs(), b.P)
	}
	if r.Err() != nil {
		return nil, nil
	}
	w := &structured{structure: structure, x: x, prior: prior, o: o.withDefaults(), n: s.N, c: s.C}
	w.o.Center, w.o.Mean = nil, gp.Network
	w.theta, w.center = r.Floats("theta", s.P), r.Floats("center", s.P)
	scalars := r.Floats("scalars", 1)
	if w.sites = gp.LoadSites(r, s.N, s.C); r.Err() != nil {
		return nil, nil
	}
	if slices.Equal(w.center, w.theta) {
		w.center = w.theta
	}
	w.logDet, w.model.Parameters = scalars[0], b.Model.Parameters
	w.warnings = append(w.warnings, s.Warnings...)
	if w.identity().Check(context.Background(), r, ""); r.Err() != nil {
		return nil, nil
	}
	w.mu0, w.root = moments(prior, s.P)
	w.o.Targets.CheckSaved(r, w.sites)
	w.o.Targets = nil
	return w, &s
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

// Save adds the posterior to a store, in sections whose names start with
// "structure."; LoadStructure reads it. Besides what every structure has (θ*, the
// center and the sites, see gp.Sites.Save) it writes 8·w·(w + 1) bytes for each block
// of w parameters.
func (w *BlockPosterior) Save(to *store.Writer) error {
	var blocks []savedBlock
	for i, g := range w.groups {
		blocks = append(blocks, savedBlock{g.name, len(g.index)})
		to.Floats(fmt.Sprintf("structure.index.%d", i), floatsOf(g.index))
		to.Floats(fmt.Sprintf("structure.factor.%d", i), w.h[i].data)
	}
	if w.structure == Subnetwork {
		to.Floats("structure.selected", floatsOf(w.selected))
	}
	return w.save(to, blocks...)
}

func (w *structured) loadBlocks(r *store.Reader, about *savedStructure) (*BlockPosterior, error) {
	b, err := someExamples(context.Background(), w.x)
	if err != nil {
		return nil, err
	}
	if len(about.Blocks) == 0 || w.structure == Subnetwork && len(about.Blocks) != 1 {
		return nil, r.Fail(saved.WriteAgain, saved.Impossible)
	}
	p := &BlockPosterior{structured: *w}
	for i, s := range about.Blocks {
		if s.Size < 1 || s.Size > len(w.theta) {
			return nil, r.Fail(saved.WriteAgain, saved.Impossible)
		}
		index := integersOf(r.Floats(fmt.Sprintf("index.%d", i), s.Size))
		h := precision{data: r.Floats(fmt.Sprintf("factor.%d", i), s.Size, s.Size), shared: true}
		if r.Err() != nil {
			return nil, r.Err()
		}
		g := groupOf(b, s.Name, index)
		if !slices.Equal(g.index, index) {
			return nil, r.Fail(saved.OtherData, "the layers of the network are others")
		}
		h.u = triangle(h.symmetric(s.Size))
		p.groups, p.h = append(p.groups, g), append(p.h, h)
	}
	if w.structure == Subnetwork {
		p.selected = integersOf(r.Floats("selected", len(p.groups[0].index)))
	}
	return p, r.Err()
}

func floatsOf(v []int) []float64 {
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = float64(x)
	}
	return out
}

func integersOf(v []float64) []int {
	out := make([]int, len(v))
	for i, x := range v {
		out[i] = int(x)
	}
	return out
}

// triangle returns the factor that is in the upper triangle of h.
func triangle(h blas64.Symmetric) blas64.Triangular {
	return blas64.Triangular{Uplo: blas.Upper, Diag: blas.NonUnit, N: h.N, Stride: h.Stride, Data: h.Data}
}
