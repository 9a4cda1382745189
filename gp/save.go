package gp

import (
	"errors"
	"iter"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/store"
)

// savedVersion is that of the sections written here.
const savedVersion = 1

// saved is what a stored posterior holds besides its sections of numbers.
type saved struct {
	Version  int
	N, C     int
	Refit    bool
	Mean     Mean
	Warnings []string
}

const otherData = "give the network, its parameters, the prior and the examples that it was fitted with"

// Save adds the posterior to a store, in sections whose names start with
// "exact.": kernel and factor (E4), sites, dual vectors (E5) and the text of the
// warnings, 8·N·C·(N·C + 2·C + 7) bytes and little more. Neither the training
// examples nor their Jacobian are in it, nor the kernel's prior: Load asks for
// them. Its error is nil; those of writing are store.Write's, as whose
// argument it can serve.
func (e *Exact) Save(w *store.Writer) error {
	n, c := e.sites.F.Dims()
	s := saved{Version: savedVersion, N: n, C: c, Refit: e.refit, Mean: e.o.Mean}
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
	return nil
}

// Load returns the posterior that Save wrote, given the kernel and the
// linearized training examples it was fitted with. It predicts bit for bit
// what the saved one did, and all else that the saved one answers, it answers
// the same. Its predictive mean is the saved one's, whatever o says.
//
// Nothing is computed but checksums: the numbers stay in the store's memory,
// so the store must stay open. That the data and the kernel are the same is
// the caller's to see to; Load compares N, C and the prior variances of 16
// training examples or a few more. What does not fit, damage and sections of
// impossible sizes are a *store.Error.
func Load(f *store.File, k ntk.Kernel, x *linearize.Batch, o *Options) (*Exact, error) {
	var s saved
	r := f.Reader("exact.")
	r.JSON("about", &s)
	switch {
	case r.Err() != nil:
	case s.Version != savedVersion:
		r.Fail("use the program that wrote it", "holds an exact posterior of version %d, this program reads version %d", s.Version, savedVersion)
	case s.N < 1 || s.C < 1 || s.Mean < Network || s.Mean > LinearGaussian:
		r.Fail("write it again", "holds an impossible posterior")
	case s.N != x.Len() || s.C != x.Outputs():
		r.Fail(otherData, "the saved posterior has %d training examples and %d outputs, the data %d and %d", s.N, s.C, x.Len(), x.Outputs())
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
	if err := e.checkSaved(r); err != nil {
		return nil, err
	}
	return e, nil
}

// checkSaved compares the prior variances of some examples with those of the
// saved kernel, which belong to one network, prior and order of the examples.
func (e *Exact) checkSaved(r *store.Reader) error {
	n, c := e.x.Len(), e.outputs()
	d := mat.NewDense(c, c, nil)
	for i := 0; i < n; i += max(1, n/16) {
		e.k.DiagTo(d, e.x.Slice(i, i+1))
		for j := range c {
			at := i*c + j
			// Other orders of summation differ by rounding.
			if v, was := d.At(j, j), e.g.data[at*(e.g.n+1)+at]; !(math.Abs(v-was) <= 1e-9*math.Abs(was)) {
				return r.Fail(otherData, "the prior variance of training example %d, output %d is %v, the saved one %v", i, j, v, was)
			}
		}
	}
	return nil
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

// LoadSites returns the sites of n examples with c outputs that Save wrote, in
// the store's memory; nil where the Reader has an error.
func LoadSites(r *store.Reader, n, c int) *Sites {
	if n < 1 || c < 1 {
		r.Fail("write it again", "holds sites of %d examples with %d outputs", n, c)
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

// rows are those of m, or all at once where no gap is between them.
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
