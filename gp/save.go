package gp

import (
	"errors"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/store"
)

// saved is what a stored posterior holds besides its numbers.
type saved struct {
	N, C     int
	Refit    bool
	Mean     Mean
	LogLik   float64
	LogDet   float64
	Jitter   float64
	Diagonal float64 // mean of B's diagonal
	Warnings []string
}

// Save adds the posterior to a store: kernel, factor, sites and dual vectors,
// 8·(N·C)² bytes and little more. Neither the training examples nor their
// Jacobian are in it: Load asks for them.
func (e *Exact) Save(w *store.Writer) error {
	n, c := e.sites.F.Dims()
	s := saved{N: n, C: c, Refit: e.refit, Mean: e.o.Mean, LogLik: e.sites.LogLik, LogDet: e.f.logDet, Jitter: e.f.jitter, Diagonal: e.f.mean}
	for _, warning := range e.warnings {
		s.Warnings = append(s.Warnings, warning.Error())
	}
	w.JSON("exact", s)
	w.Floats("exact.kernel", e.g.data)
	w.Floats("exact.prior", e.prior)
	w.Floats("exact.f", stacked(e.sites.F))
	w.Floats("exact.residual", stacked(e.sites.Residual))
	w.Floats("exact.lambda", stacked(e.sites.Lambda))
	w.Floats("exact.root", stacked(e.sites.Root))
	w.Floats("exact.b", e.b)
	w.Floats("exact.alpha", e.alpha)
	w.Floats("exact.kalpha", e.kalpha)
	return nil
}

// Load returns the posterior that Save wrote, given the kernel and the
// linearized training examples it was built on; that they are the same is the
// caller's to check. It predicts bit for bit what the saved one did. The
// numbers stay in the store's memory, so the store must stay open.
func Load(f *store.File, k ntk.Kernel, x *linearize.Batch, o *Options) (*Exact, error) {
	var s saved
	if err := f.JSON("exact", &s); err != nil {
		return nil, err
	}
	if s.N != x.Len() || s.C != x.Outputs() || s.N < 1 {
		return nil, fmt.Errorf("gp: the saved posterior has %d training examples and %d outputs, the data %d and %d", s.N, s.C, x.Len(), x.Outputs())
	}
	e := &Exact{k: k, x: x, o: o.withDefaults(), refit: s.Refit, tile: tileBytes, borrowed: true}
	e.o.Mean = s.Mean
	nc := s.N * s.C
	var err error
	floats := func(name string, n int) []float64 {
		v, e := f.Floats("exact." + name)
		if e == nil && len(v) != n {
			e = fmt.Errorf("gp: section %q of the saved posterior has %d numbers, not %d", name, len(v), n)
		}
		err = errors.Join(err, e)
		if e != nil {
			return make([]float64, n)
		}
		return v
	}
	e.prior, e.b, e.alpha, e.kalpha = floats("prior", nc), floats("b", nc), floats("alpha", nc), floats("kalpha", nc)
	e.sites = &Sites{F: mat.NewDense(s.N, s.C, floats("f", nc)), Residual: mat.NewDense(s.N, s.C, floats("residual", nc)),
		Lambda: mat.NewDense(nc, s.C, floats("lambda", nc*s.C)), Root: mat.NewDense(nc, s.C, floats("root", nc*s.C)), LogLik: s.LogLik}
	if err != nil {
		return nil, err
	}
	if e.g.data, err = f.Floats("exact.kernel"); err != nil {
		return nil, err
	}
	if e.g.n = nc; len(e.g.data) != nc*(nc+1) {
		return nil, fmt.Errorf("gp: the saved kernel has %d numbers, not %d", len(e.g.data), nc*(nc+1))
	}
	b := e.g.upper()
	e.lambda = newBlockDiag(e.sites.Lambda)
	e.f = &factor{u: blas64.Triangular{Uplo: blas.Upper, Diag: blas.NonUnit, N: b.N, Stride: b.Stride, Data: b.Data},
		r: newBlockDiag(e.sites.Root), logDet: s.LogDet, jitter: s.Jitter, mean: s.Diagonal, workers: e.o.Workers}
	for _, text := range s.Warnings {
		e.warnings = append(e.warnings, errors.New(text))
	}
	return e, nil
}

// own makes the kernel's memory the posterior's own before it is overwritten.
func (e *Exact) own() gram {
	if e.borrowed {
		return gram{n: e.g.n, data: slices.Clone(e.g.data)}
	}
	return e.g
}
