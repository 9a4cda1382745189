package weightspace

import (
	"context"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/mode"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/jacobian"
	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/internal/saved"
	"github.com/funcgp/funcgp/internal/sites"
	"github.com/funcgp/funcgp/internal/store"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// A Solver is the gp.Solver that uses the precision H of the parameters, P×P, for all training examples. Its time grows
// with N·C and its memory does not, so it is exact for any number of examples if there are few parameters. C(x,x') is
// the product J(x) H⁻¹ J(x')ᵀ, and nothing is subtracted, so that small variances keep all their digits.
type Solver struct{ *BlockPosterior }

var _ gp.SavedSolver = (*Solver)(nil)

// FitSums returns the gp.Posterior given the sites s of the training examples x, with a Solver. It reads x as a stream
// in a few passes, of which the one that sums H takes N·C·P² operations, and keeps 8·P² bytes in memory. The errors are
// those of Fit. It uses Mean and Limits of o.
func FitSums(ctx context.Context, x linearize.Source, s *gp.Sites, prior ntk.Prior, theta []float64, o *Options) (*gp.Posterior, error) {
	f, err := newSums(x, s, prior, theta, o)
	if err != nil {
		return nil, err
	}
	h, err := f.precision(ctx, s)
	if err != nil {
		return nil, err
	}
	// b = r + Λ(f − m) (E5)
	products, n := linearize.ProductsOf(x), len(f.local.F)
	m, pseudo, moved := make([]float64, n), make([]float64, n), make([]float64, n)
	var u gp.Untrained
	err = x.Batches(ctx, func(first int, b *linearize.Batch) error {
		part := m[first*f.c : (first+b.Len())*f.c]
		f.kernel.MeanTo(part, b)
		u.Add(dense.Flat(b.F), part)
		return ctx.Err()
	})
	if err != nil {
		return nil, err
	}
	f.local.PseudoTargets(pseudo, m)
	if f.mean.Mean == gp.Network {
		f.mean.Warnings = append(f.mean.Warnings, u.Warnings(s)...)
	}
	if err := sites.NotFinite("pseudo-target", pseudo, 0, f.c); err != nil {
		return nil, err
	}
	// θ̂ − μ₀ = H⁻¹Jᵀb, and α = b − ΛJ(θ̂ − μ₀)
	pulled := make([]float64, len(f.theta))
	if err := products.MulTransVecTo(ctx, pulled, pseudo); err != nil {
		return nil, err
	}
	floats.Mul(pulled, f.white.Root)
	h.h[0].solve(pulled)
	floats.Mul(pulled, f.white.Root)
	if err := products.MulVecTo(ctx, moved, pulled); err != nil {
		return nil, err
	}
	alpha := make([]float64, n)
	f.local.SubtractLambda(alpha, pseudo, moved)
	if err := products.MulTransVecTo(ctx, pulled, alpha); err != nil {
		return nil, err
	}
	f.mean.Sites = s
	if err := f.mean.SetDual(alpha, pulled); err != nil {
		return nil, err
	}
	return gp.NewPosterior(ctx, &Solver{h}, f.mean)
}

// RefitSums is FitSums at the mode of the linearized model (E9) for targets y. mode.Find finds the mode with H of an
// earlier step as the preconditioner. start, if not nil, has the parameters from which the search starts, P numbers. The
// errors are those of mode.Find and FitSums.
func RefitSums(ctx context.Context, x linearize.Source, y *gp.Targets, prior ntk.Prior, theta, start []float64, o *Options) (*gp.Posterior, error) {
	outputs, err := linearize.Outputs(ctx, x)
	if err != nil {
		return nil, err
	}
	s, err := gp.NewSites(y, outputs)
	if err != nil {
		return nil, err
	}
	f, err := newSums(x, s, prior, theta, o)
	if err != nil {
		return nil, err
	}
	// A conjugate gradient step takes about 4·N·C·P operations. H̃ takes N·C·P², which run factorSpeed times as fast.
	pre := &preconditioner{limit: len(theta) / (4 * factorSpeed), factor: func(ctx context.Context, s *gp.Sites) (*precision, error) {
		h, err := f.precision(ctx, s)
		if err != nil {
			return nil, err
		}
		return &h.h[0], nil
	}}
	search := &mode.Options{Outputs: outputs, Start: start, Precondition: pre.at, Gradient: mode.Close(y), MaxIter: f.o.MaxIter, Limits: f.o.Limits}
	found, err := mode.Find(ctx, x, y, prior, theta, search)
	if err != nil {
		return nil, err
	}
	pre.h = nil // free the memory of this factor before making the last
	f.mean.Warnings = found.Warnings
	if err := f.mean.SetMode(ctx, linearize.ProductsOf(x), prior, found.Theta, found.Sites, y); err != nil {
		return nil, err
	}
	h, err := f.precision(ctx, f.mean.Sites)
	if err != nil {
		return nil, err
	}
	return gp.NewPosterior(ctx, &Solver{h}, f.mean)
}

// A sums holds the model and the training examples of FitSums and RefitSums before H is summed.
type sums struct {
	structured
	kernel *ntk.NTK
	mean   gp.DualMean
}

func newSums(x linearize.Source, s *gp.Sites, prior ntk.Prior, theta []float64, o *Options) (*sums, error) {
	base, err := newStructured(Full, x, s, prior, theta, o)
	if err != nil {
		return nil, err
	}
	f := &sums{structured: *base, kernel: ntk.New(prior, theta)}
	f.mean = gp.DualMean{Data: x, Kernel: f.kernel, Variance: make([]float64, len(theta)), Mean: f.o.Mean}
	prior.VarianceTo(f.mean.Variance)
	f.o.Mean = gp.Network // the solver has no mean
	return f, nil
}

// precision factors H at the sites s.
func (f *sums) precision(ctx context.Context, s *gp.Sites) (*BlockPosterior, error) {
	at := f.structured
	at.sites, at.local = s, sites.Of(s)
	return at.blocks(ctx, []group{allOf(len(f.theta))})
}

// Jacobian implements gp.Solver. It returns J H⁻¹Σ₀⁻¹; the columns of parameters with prior variance 0 are zero.
func (v *Solver) Jacobian(ctx context.Context, x *linearize.Batch) (*linearize.Batch, error) {
	p := len(v.theta)
	need := func(t int) int64 { return memory.Mul(16, memory.Mul(memory.Mul(int64(t), int64(v.c)), int64(p))) }
	if err := gp.CheckMemory("a cross-kernel", gp.TestExamples, x.Len(), v.o.Memory, need); err != nil {
		return nil, err
	}
	posterior := jacobian.Sum{}
	posterior.Reset(x, x.Len()*v.c)
	for lo, step := 0, panelExamples(p, v.c); lo < x.Len(); lo += step {
		hi := min(lo+step, x.Len())
		w, err := v.halfPanel(ctx, 0, x.Slice(lo, hi), lo)
		if err != nil {
			return nil, err
		}
		// J̃H̃⁻¹ = J̃U⁻¹U⁻ᵀ
		if err := v.h[0].draw(ctx, w); err != nil {
			return nil, err
		}
		for i, block := range x.Blocks {
			at := 0
			for _, s := range block.Spans() {
				for r := range w.Rows {
					to := dense.Row(posterior.Parts[i], lo*v.c+r)[at : at+s.Len()]
					for k, a := range dense.Row(w, r)[s.Offset : s.Offset+s.Len()] {
						if root := v.white.Root[s.Offset+k]; root > 0 {
							to[k] = a / root
						}
					}
				}
				at += s.Len()
			}
		}
	}
	return posterior.Batch, nil
}

// savedPrecisionVersion is the version of the sections of a Solver.
const savedPrecisionVersion = 1

// Save adds the factor of H̃ to a store, 8·P² bytes, in sections whose names start with "precision.".
func (v *Solver) Save(w *store.Writer) error {
	w.JSON("precision.about", saved.About{Version: savedPrecisionVersion, N: v.n, C: v.c, P: len(v.theta)})
	saved.Save(w, "precision.", v.fields())
	return nil
}

// fields are log det H̃ and the factor.
func (v *Solver) fields() []saved.Field {
	p := len(v.theta)
	return []saved.Field{saved.Scalars("scalars", &v.logDet), saved.Floats("factor", &v.h[0].data, p, p)}
}

// LoadSums returns the posterior that FitSums or RefitSums made and gp.Posterior.Save wrote, given the training
// examples, the prior and θ*. It compares them, and targets where these are not nil, with the saved ones; see
// gp.LoadPosterior. It uses Limits of o.
func LoadSums(ctx context.Context, f *store.File, x linearize.Source, targets *gp.Targets, prior ntk.Prior, theta []float64, o *Options) (*gp.Posterior, error) {
	variance := make([]float64, len(theta))
	prior.VarianceTo(variance)
	return gp.LoadPosterior(ctx, f, x, ntk.New(prior, theta), variance, targets, func(s *gp.Sites) (gp.Solver, error) {
		var about saved.About
		r := f.Reader("precision.")
		r.JSON("about", &about)
		about.Check(r, savedPrecisionVersion)
		_, c := s.F.Dims()
		about.Belongs(r, x.Len(), c, len(theta))
		if r.Err() != nil {
			return nil, r.Err()
		}
		base, err := newStructured(Full, x, s, prior, theta, o)
		if err != nil {
			return nil, err
		}
		p := len(theta)
		v := &Solver{&BlockPosterior{structured: *base, groups: []group{allOf(p)}, h: make([]precision, 1)}}
		if !saved.Load(r, v.fields()) {
			return nil, r.Err()
		}
		h := &v.h[0]
		h.shared, h.logDet = true, v.logDet
		h.u = blas64.Triangular{Uplo: blas.Upper, Diag: blas.NonUnit, N: p, Stride: p, Data: h.data}
		return v, nil
	})
}
