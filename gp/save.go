package gp

import (
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/saved"
	"github.com/funcgp/funcgp/internal/store"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// savedVersion is the version of the sections that Save writes.
const savedVersion = 2 // fingerprints since 2

// Save adds the posterior to a store, in sections whose names start with
// "exact.". It saves the kernel and its factor (E4), the sites, the dual vectors
// (E5) and the warnings, 8·N·C·(N·C + 2·C + 7) bytes, and the
// fingerprints of the training examples, their model and the prior. It does not
// save the examples and the kernel, which Load must be given.
//
//	err := store.Write(path, kind, version, post.Save) // see store.Write
//
// Save returns an error only where the fingerprints cannot be computed;
// store.Write returns the errors of writing.
func (e *Exact) Save(w *store.Writer) error {
	s := e.s
	n, c := s.sites.F.Dims()
	w.JSON("exact.about", saved.About{Version: savedVersion, N: n, C: c, Refit: s.refit, Mean: int(s.o.Mean), Warnings: s.warnings})
	saved.Save(w, "exact.", s.fields(n*c))
	s.sites.Save(w, "exact.")
	return saved.Of(s.x, s.k).Save(context.Background(), w, "exact.")
}

// fields lists the numbers that Save writes and load reads beside the sites: K and its factor in one array, then m,
// b, α and Kα, each of nc = N·C numbers.
func (e *rowSolver) fields(nc int) []saved.Field {
	return []saved.Field{
		saved.Floats("kernel", &e.g.data, nc, nc+1), saved.Scalars("factor", &e.f.logDet, &e.f.jitter, &e.f.mean),
		saved.Floats("prior", &e.prior, nc), saved.Floats("b", &e.b, nc), saved.Floats("alpha", &e.alpha, nc), saved.Floats("kalpha", &e.kalpha, nc),
	}
}

// load reads what Save wrote of nc outputs, with their sites.
func (e *rowSolver) load(r *store.Reader, nc int, sites func() *Sites) bool {
	e.tile, e.f = tileBytes, &factor{}
	ok := saved.Load(r, e.fields(nc))
	if e.sites = sites(); !ok || r.Err() != nil {
		return false
	}
	e.g.n = nc
	b := e.g.upper()
	e.lambda, e.f.r = newBlockDiag(e.sites.Lambda), newBlockDiag(e.sites.Root)
	e.f.u = blas64.Triangular{Uplo: blas.Upper, Diag: blas.NonUnit, N: b.N, Stride: b.Stride, Data: b.Data}
	return true
}

// Load returns the posterior that Save wrote, given the kernel and the
// linearized training examples it was fitted with. All its answers are
// bit-identical to those of the saved posterior. It does not use o.Mean: its
// predictive mean is that of the saved posterior.
//
// The numbers stay in the store's memory, so the store must stay open.
//
// Load compares fingerprints: the graph and the parameters of the model, the
// inputs and their order, and the prior, all bit for bit. Where the model, the
// inputs or the kernel have no fingerprint (see linearize.Fingerprinted,
// linearize.Batch and ntk.NTK.Fingerprint) it compares the network's outputs, a
// product with the Jacobian, prior means and prior variances within 1e-9, at 16
// examples, or at all where there are no inputs. If o.Targets is not nil, it
// compares the targets too. Where something differs, or the file is damaged or
// holds sections of impossible sizes, the error is a *store.Error whose Problem
// names it.
func Load(f *store.File, k ntk.Kernel, x *linearize.Batch, o *Options) (*Exact, error) {
	var s saved.About
	r := f.Reader("exact.")
	r.JSON("about", &s)
	s.Check(r, savedVersion)
	s.Belongs(r, x.Len(), x.Outputs(), -1)
	e := &rowSolver{k: k, x: x, o: o.withDefaults(), refit: s.Refit}
	e.o.Mean = Mean(s.Mean)
	if !e.load(r, s.N*s.C, func() *Sites { return LoadSites(r, s.N, s.C) }) {
		return nil, r.Err()
	}
	e.warnings = append(e.warnings, s.Warnings...)
	saved.Of(x, k).Check(context.Background(), r, "")
	e.checkVariances(r, func(i int) int { return i })
	e.o.Targets.CheckSaved(r, e.sites)
	if r.Err() != nil {
		return nil, r.Err()
	}
	e.o.Targets = nil
	return e.exact(), nil
}

// checkVariances compares the prior variances of some examples with the saved
// kernel. If the kernel has a fingerprint, they differ only in a damaged file. The
// error names example(i) for the i-th.
func (e *rowSolver) checkVariances(r *store.Reader, example func(i int) int) {
	if r.Err() != nil {
		return
	}
	n, c := e.x.Len(), e.outputs()
	d := mat.NewDense(c, c, nil)
	for i := 0; i < n; i += max(1, n/16) {
		e.k.DiagTo(d, e.x.Slice(i, i+1))
		for j := range c {
			at := i*c + j
			// Other orders of summation differ by rounding.
			if v, was := d.At(j, j), e.g.data[at*(e.g.n+1)+at]; !(math.Abs(v-was) <= 1e-9*math.Abs(was)) {
				_ = r.Fail(saved.OtherData, "the prior variance of training example %d, output %d is %v, the saved one %v", example(i), j, v, was)
				return
			}
		}
	}
}

// savedThinned is the JSON section of a stored Thinned.
type savedThinned struct {
	saved.About
	Examples        []int
	Representatives int `json:",omitempty"`
}

// savedThinnedVersion is the version of the sections that Thinned.Save writes.
const savedThinnedVersion = 1

// Save adds the posterior to a store, in sections whose names start with "thinned.": the
// rows, their kernel and its factor (E4), 8·n·(n + C + 7) bytes for n rows, and the
// warnings. It does not save the training examples and their sites.
func (t *Thinned) Save(w *store.Writer) error {
	n, c := t.sites.F.Dims()
	about := saved.About{Version: savedThinnedVersion, N: n, C: c, Warnings: t.e.warnings}
	w.JSON("thinned.about", savedThinned{about, t.kept.Examples, t.kept.Representatives})
	w.Floats("thinned.directions", dense.Contiguous(t.kept.Directions))
	saved.Save(w, "thinned.", append(t.kept.fields(), t.e.fields(t.kept.Len())...))
	return nil
}

// fields are the numbers of kept rows beside their directions.
func (k *Kept) fields() []saved.Field {
	return []saved.Field{saved.Floats("lambda", &k.Lambda, k.Len()), saved.Floats("strength", &k.Strength, k.Len()), saved.Scalars("trace", &k.Trace, &k.Total)}
}

// LoadThinned returns the posterior that Thinned.Save wrote, given the kernel, the
// training examples and their sites, with a backward pass a row. It compares prior
// variances of some rows with the saved ones, but not the model, the examples and the
// prior. Its use of o, of the store and of memory is that of Load.
func LoadThinned(ctx context.Context, f *store.File, k ntk.Kernel, x linearize.Source, s *Sites, o *Options) (*Thinned, error) {
	var about savedThinned
	r := f.Reader("thinned.")
	r.JSON("about", &about)
	about.Check(r, savedThinnedVersion)
	n, c := s.F.Dims()
	about.Belongs(r, n, c, -1)
	about.Belongs(r, x.Len(), -1, -1)
	kept, rows := &Kept{Examples: about.Examples, Representatives: about.Representatives}, len(about.Examples)
	if own := kept.Own(); r.Err() == nil && (own < 1 || own > rows || !slices.IsSorted(about.Examples[:own]) || !slices.IsSorted(about.Examples[own:]) ||
		slices.Min(about.Examples) < 0 || slices.Max(about.Examples) >= n) {
		_ = r.Fail(saved.WriteAgain, saved.Impossible)
	}
	directions := r.Floats("directions", rows, c)
	if !saved.Load(r, kept.fields()) {
		return nil, r.Err()
	}
	kept.Directions = mat.NewDense(rows, c, directions)
	if !(slices.Min(kept.Lambda) > 0) {
		return nil, r.Fail(saved.WriteAgain, saved.Impossible)
	}
	z, err := gatherKept(ctx, x, kept)
	if err != nil {
		return nil, stopped("linearizing kept rows", err)
	}
	e := &rowSolver{k: k, x: z, o: o.withDefaults(), ofKept: c}
	e.o.Mean, e.o.Targets = Network, nil
	if !e.load(r, rows, func() *Sites { return kept.sites(s) }) {
		return nil, r.Err()
	}
	e.warnings = append(e.warnings, about.Warnings...)
	if e.checkVariances(r, func(i int) int { return kept.Examples[i] }); r.Err() != nil {
		return nil, r.Err()
	}
	return newThinned(ctx, e, x, s, kept)
}

// Save adds the sites to a store, in sections whose names start with prefix:
// 8·N·C·(2 + 2·C) bytes and log p(y|f).
func (s *Sites) Save(w *store.Writer, prefix string) {
	w.Floats(prefix+"loglik", []float64{s.LogLik})
	for _, p := range []struct {
		name string
		m    *mat.Dense
	}{{"f", s.F}, {"residual", s.Residual}, {"lambda", s.Lambda}, {"root", s.Root}} {
		w.Floats(prefix+p.name, dense.Contiguous(p.m))
	}
}

// LoadSites returns the sites of n examples with c outputs that Sites.Save wrote.
// They share the store's memory. It returns nil where r has an error.
func LoadSites(r *store.Reader, n, c int) *Sites {
	if n < 1 || c < 1 {
		r.Fail(saved.WriteAgain, "holds sites of %d examples with %d outputs", n, c)
		return nil
	}
	lik := r.Floats("loglik", 1)
	f, residual := r.Floats("f", n, c), r.Floats("residual", n, c)
	lambda, root := r.Floats("lambda", n, c, c), r.Floats("root", n, c, c)
	if r.Err() != nil {
		return nil
	}
	return &Sites{LogLik: lik[0], F: mat.NewDense(n, c, f), Residual: mat.NewDense(n, c, residual),
		Lambda: mat.NewDense(n*c, c, lambda), Root: mat.NewDense(n*c, c, root)}
}
