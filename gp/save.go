package gp

import (
	"context"
	"errors"
	"iter"
	"math"

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
	Warnings []string
}

// Save adds the posterior to a store, in sections whose names start with
// "exact.". It saves the kernel and its factor (E4), the sites, the dual vectors
// (E5) and the text of the warnings, 8·N·C·(N·C + 2·C + 7) bytes, and the
// fingerprints of the training examples, their model and the prior. It does not
// save the examples and the kernel, which Load must be given.
//
//	err := store.Write(path, kind, version, post.Save) // see store.Write
//
// Save returns an error only where the fingerprints cannot be computed;
// store.Write returns the errors of writing.
func (e *Exact) Save(w *store.Writer) error {
	n, c := e.sites.F.Dims()
	s := savedExact{Version: savedVersion, N: n, C: c, Refit: e.refit, Mean: e.o.Mean}
	for _, warning := range e.warnings {
		s.Warnings = append(s.Warnings, warning.Error())
	}
	w.JSON("exact.about", s)
	w.Floats("exact.kernel", e.g.data)
	w.Floats("exact.factor", []float64{e.f.logDet, e.f.jitter, e.f.mean})
	w.Floats("exact.prior", e.prior)
	w.Floats("exact.b", e.b)
	w.Floats("exact.alpha", e.alpha)
	w.Floats("exact.kalpha", e.kalpha)
	e.sites.Save(w, "exact.")
	return e.identity().Save(context.Background(), w, "exact.")
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
	nc := s.N * s.C
	e := &Exact{k: k, x: x, o: o.withDefaults(), refit: s.Refit, tile: tileBytes}
	e.o.Mean = s.Mean
	e.g = gram{n: nc, data: r.Floats("kernel", nc, nc+1)}
	e.prior, e.b, e.alpha, e.kalpha = r.Floats("prior", nc), r.Floats("b", nc), r.Floats("alpha", nc), r.Floats("kalpha", nc)
	e.sites = LoadSites(r, s.N, s.C)
	scalars := r.Floats("factor", 3)
	if r.Err() != nil {
		return nil, r.Err()
	}
	b := e.g.upper()
	e.lambda = newBlockDiag(e.sites.Lambda)
	e.f = &factor{u: blas64.Triangular{Uplo: blas.Upper, Diag: blas.NonUnit, N: b.N, Stride: b.Stride, Data: b.Data},
		r: newBlockDiag(e.sites.Root), logDet: scalars[0], jitter: scalars[1], mean: scalars[2], workers: e.o.Workers}
	for _, text := range s.Warnings {
		e.warnings = append(e.warnings, errors.New(text))
	}
	e.identity().Check(context.Background(), r, "")
	e.checkVariances(r)
	e.o.Targets.CheckSaved(r, e.sites)
	if r.Err() != nil {
		return nil, r.Err()
	}
	e.o.Targets = nil
	return e, nil
}

// checkVariances compares the prior variances of some examples with the saved
// kernel. If the kernel has a fingerprint, they differ only in a damaged file.
func (e *Exact) checkVariances(r *store.Reader) {
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
				_ = r.Fail(saved.OtherData, "the prior variance of training example %d, output %d is %v, the saved one %v", i, j, v, was)
				return
			}
		}
	}
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
