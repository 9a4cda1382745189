package gp

import (
	"context"
	"iter"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/saved"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/store"
)

// savedVersion is the version of the sections that Save writes.
const savedVersion = 2 // fingerprints since 2

// savedExact is the JSON section of a stored posterior.
type savedExact struct {
	Version  int
	N, C     int
	Refit    bool
	Mean     Mean
	Warnings linearize.Warnings
}

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
	n, c := e.sites.F.Dims()
	s := savedExact{Version: savedVersion, N: n, C: c, Refit: e.refit, Mean: e.o.Mean, Warnings: e.warnings}
	w.JSON("exact.about", s)
	e.saveNumbers(w, "exact.")
	e.sites.Save(w, "exact.")
	return e.identity().Save(context.Background(), w, "exact.")
}

// saveNumbers saves the kernel, its factor and the dual vectors.
func (e *Exact) saveNumbers(w *store.Writer, prefix string) {
	w.Floats(prefix+"kernel", e.g.data)
	w.Floats(prefix+"factor", []float64{e.f.logDet, e.f.jitter, e.f.mean})
	w.Floats(prefix+"prior", e.prior)
	w.Floats(prefix+"b", e.b)
	w.Floats(prefix+"alpha", e.alpha)
	w.Floats(prefix+"kalpha", e.kalpha)
}

// loadNumbers reads what saveNumbers wrote, for nc rows of K, and builds the posterior's
// factor with it and the sites.
func (e *Exact) loadNumbers(r *store.Reader, nc int, sites func() *Sites) {
	e.g = gram{n: nc, data: r.Floats("kernel", nc, nc+1)}
	e.prior, e.b, e.alpha, e.kalpha = r.Floats("prior", nc), r.Floats("b", nc), r.Floats("alpha", nc), r.Floats("kalpha", nc)
	e.sites = sites()
	scalars := r.Floats("factor", 3)
	if r.Err() != nil {
		return
	}
	b := e.g.upper()
	e.lambda = newBlockDiag(e.sites.Lambda)
	e.f = &factor{u: blas64.Triangular{Uplo: blas.Upper, Diag: blas.NonUnit, N: b.N, Stride: b.Stride, Data: b.Data},
		r: newBlockDiag(e.sites.Root), logDet: scalars[0], jitter: scalars[1], mean: scalars[2], workers: e.o.Workers}
}

// identity returns what is compared when the posterior is loaded.
func (e *Exact) identity() *saved.Identity {
	return &saved.Identity{Examples: e.x, Kernel: e.k, Remedy: saved.OtherData}
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
	var s savedExact
	r := f.Reader("exact.")
	r.JSON("about", &s)
	saved.Version(r, s.Version, savedVersion)
	switch {
	case r.Err() != nil:
	case s.N < 1 || s.C < 1 || s.Mean < Network || s.Mean > LinearGaussian:
		r.Fail(saved.WriteAgain, saved.Impossible)
	case s.N != x.Len() || s.C != x.Outputs():
		r.Fail(saved.OtherData, "the saved posterior has %d training examples and %d outputs, the data %d and %d", s.N, s.C, x.Len(), x.Outputs())
	}
	e := &Exact{k: k, x: x, o: o.withDefaults(), refit: s.Refit, tile: tileBytes}
	e.o.Mean = s.Mean
	e.loadNumbers(r, s.N*s.C, func() *Sites { return LoadSites(r, s.N, s.C) })
	if r.Err() != nil {
		return nil, r.Err()
	}
	e.warnings = append(e.warnings, s.Warnings...)
	e.identity().Check(context.Background(), r, "")
	e.checkVariances(r, func(i int) int { return i })
	e.o.Targets.CheckSaved(r, e.sites)
	if r.Err() != nil {
		return nil, r.Err()
	}
	e.o.Targets = nil
	return e, nil
}

// checkVariances compares the prior variances of some examples with the saved
// kernel. If the kernel has a fingerprint, they differ only in a damaged file. The
// error names example(i) for the i-th.
func (e *Exact) checkVariances(r *store.Reader, example func(i int) int) {
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
	Version  int
	N, C     int
	Examples []int
	Warnings linearize.Warnings
}

// savedThinnedVersion is the version of the sections that Thinned.Save writes.
const savedThinnedVersion = 1

// Save adds the posterior to a store, in sections whose names start with "thinned.": the
// rows, their kernel and its factor (E4), 8·n·(n + C + 7) bytes for n rows, and the
// warnings. It does not save the training examples and their sites.
func (t *Thinned) Save(w *store.Writer) error {
	n, c := t.sites.F.Dims()
	s := savedThinned{Version: savedThinnedVersion, N: n, C: c, Examples: t.kept.Examples, Warnings: t.e.warnings}
	w.JSON("thinned.about", s)
	w.FloatRows("thinned.directions", rows(t.kept.Directions))
	w.Floats("thinned.lambda", t.kept.Lambda)
	w.Floats("thinned.strength", t.kept.Strength)
	w.Floats("thinned.trace", []float64{t.kept.Trace, t.kept.Total})
	t.e.saveNumbers(w, "thinned.")
	return nil
}

// LoadThinned returns the posterior that Thinned.Save wrote, given the kernel, the
// training examples and their sites, with a backward pass a row. It compares prior
// variances of some rows with the saved ones, but not the model, the examples and the
// prior. Its use of o, of the store and of memory is that of Load.
func LoadThinned(ctx context.Context, f *store.File, k ntk.Kernel, x linearize.Source, s *Sites, o *Options) (*Thinned, error) {
	var about savedThinned
	r := f.Reader("thinned.")
	r.JSON("about", &about)
	saved.Version(r, about.Version, savedThinnedVersion)
	n, c := s.F.Dims()
	rows := len(about.Examples)
	switch {
	case r.Err() != nil:
	case rows < 1 || !slices.IsSorted(about.Examples) || about.Examples[0] < 0 || about.Examples[rows-1] >= n:
		r.Fail(saved.WriteAgain, saved.Impossible)
	case about.N != n || about.C != c || x.Len() != n:
		r.Fail(saved.OtherData, "the saved posterior has %d training examples and %d outputs, the data %d and %d", about.N, about.C, n, c)
	}
	kept := &Kept{Examples: about.Examples, Lambda: r.Floats("lambda", rows), Strength: r.Floats("strength", rows)}
	directions, trace := r.Floats("directions", rows, c), r.Floats("trace", 2)
	if r.Err() != nil {
		return nil, r.Err()
	}
	kept.Directions, kept.Trace, kept.Total = mat.NewDense(rows, c, directions), trace[0], trace[1]
	if !(slices.Min(kept.Lambda) > 0) {
		return nil, r.Fail(saved.WriteAgain, saved.Impossible)
	}
	z, err := gatherKept(ctx, x, kept)
	if err != nil {
		return nil, stopped("linearizing kept rows", err)
	}
	e := &Exact{k: k, x: z, o: o.withDefaults(), tile: tileBytes, ofKept: c}
	e.o.Mean, e.o.Targets = Network, nil
	if e.loadNumbers(r, rows, func() *Sites { return kept.sites(s) }); r.Err() != nil {
		return nil, r.Err()
	}
	e.warnings = append(e.warnings, about.Warnings...)
	if e.checkVariances(r, func(i int) int { return kept.Examples[i] }); r.Err() != nil {
		return nil, r.Err()
	}
	return &Thinned{e, s, kept}, nil
}

// Save adds the sites to a store, in sections whose names start with prefix:
// 8·N·C·(2 + 2·C) bytes and log p(y|f).
func (s *Sites) Save(w *store.Writer, prefix string) {
	w.Floats(prefix+"loglik", []float64{s.LogLik})
	for _, p := range []struct {
		name string
		m    *mat.Dense
	}{{"f", s.F}, {"residual", s.Residual}, {"lambda", s.Lambda}, {"root", s.Root}} {
		w.FloatRows(prefix+p.name, rows(p.m))
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

// rows yields the rows of m one by one, or all of them as one slice where they are
// contiguous.
func rows(m *mat.Dense) iter.Seq[[]float64] {
	return func(yield func([]float64) bool) {
		raw := m.RawMatrix()
		if raw.Stride == raw.Cols {
			yield(raw.Data[:raw.Rows*raw.Cols])
			return
		}
		for i := range raw.Rows {
			if !yield(m.RawRowView(i)) {
				return
			}
		}
	}
}
