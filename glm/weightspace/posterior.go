package weightspace

import (
	"context"
	"errors"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// Posterior is the Gaussian posterior N(θ̂, H⁻¹) over all P parameters of the
// linearized model, with H = JᵀΛJ + Σ₀⁻¹. It predicts function values too. It
// forms a P×P matrix and no kernel, where gp.Exact forms an N·C×N·C matrix, and
// both give the same numbers: Validate compares them.
//
// It computes in the whitened parameters z, where θ = μ₀ + Σ₀^½ z. There the
// Jacobian is J̃ = J Σ₀^½ and the precision is H̃ = Σ₀^½ H Σ₀^½ = I + J̃ᵀΛJ̃,
// whose determinant is that of B (E4). Λ may be singular and Σ₀ may hold zeros.
// H̃ needs no jitter, since none of its eigenvalues is below one.
type Posterior struct {
	x     *linearize.Batch
	prior ntk.Prior
	o     Options
	refit bool

	theta, mu0 []float64 // θ*, μ₀
	root       []float64 // diagonal of Σ₀^½

	h     precision
	sites *gp.Sites
	z     []float64 // ẑ = Σ₀^-½(θ̂ − μ₀)
	mean  []float64 // θ̂

	gradient float64 // norm of the gradient in z at the start of the refit's last step, where the sites are
	warnings []error
}

var _ gp.Latent = (*Posterior)(nil)

// Fit returns the weight-space posterior for the training examples b, linearized
// at theta = θ*, and their sites s. Its precision is
// H = JᵀΛJ + Σ₀⁻¹, and its mean is the linear-Gaussian one, θ̂ = μ₀ + H⁻¹Jᵀb,
// with the pseudo-targets b of (E5). It takes a little more than 8·P² bytes (see
// Bytes) and about (N·C·P² + P³/3)/2 multiplications.
//
// It fails with a *gp.MemoryError before anything large is allocated, with
// a *gp.NotFiniteError where a number is NaN or Inf, with a *gp.NotPDError
// where H overflows, and with ctx.Err(). It panics where sizes differ and where
// a prior variance is negative or not finite.
func Fit(ctx context.Context, b *linearize.Batch, s *gp.Sites, prior ntk.Prior, theta []float64, o *Options) (*Posterior, error) {
	w, err := newPosterior(b, prior, theta, o)
	if err != nil {
		return nil, err
	}
	n, c := b.F.Dims()
	if r, k := s.F.Dims(); r != n || k != c {
		panic("weightspace: sites and examples differ in size")
	}
	if err := w.condition(ctx, s); err != nil {
		return nil, err
	}
	pseudo := w.pseudoTargets()
	if i := dense.NotFinite(pseudo); i >= 0 {
		return nil, &gp.NotFiniteError{What: "pseudo-target", Row: i / c, Output: i % c, Value: pseudo[i]}
	}
	// ẑ = H̃⁻¹ J̃ᵀ b
	w.z = w.pullBack(pseudo)
	w.h.solve(w.z)
	w.mean = w.thetaAt(w.z)
	return w, ctx.Err()
}

// newPosterior checks sizes and memory, and allocates H̃.
func newPosterior(b *linearize.Batch, prior ntk.Prior, theta []float64, o *Options) (*Posterior, error) {
	p := len(theta)
	if p != b.P || p == 0 {
		panic("weightspace: the length of theta is not the batch's number of parameters")
	}
	checkModel(linearize.ModelFingerprint{Parameters: linearize.SumOf(theta)}, b)
	w := &Posterior{x: b, prior: prior, o: o.withDefaults(), theta: slices.Clone(theta)}
	if b.Len() == 0 {
		return nil, errors.New("weightspace: there are no training examples")
	}
	if err := checkMatrix("network output", b.F, 0); err != nil {
		return nil, err
	}
	if err := checkMemory(p, b.Outputs(), w.o.MaxMemory); err != nil {
		return nil, err
	}
	w.setPrior()
	w.h.data = make([]float64, p*p)
	return w, nil
}

// checkModel panics where b is not linearized at the parameters of m, as far as they are
// known. It may be of another graph: the posterior over θ is one of any function of θ.
func checkModel(m linearize.ModelFingerprint, b *linearize.Batch) {
	if d := (linearize.ModelFingerprint{Parameters: m.Parameters}).Mismatch(b.Model); d != "" {
		panic("weightspace: the examples are not linearized at θ* of the posterior: " + d + "; linearize all with one network, at theta")
	}
}

// setPrior sets μ₀ and Σ₀^½.
func (w *Posterior) setPrior() { w.mu0, w.root = moments(w.prior, len(w.theta)) }

// moments returns μ₀ and the diagonal of Σ₀^½ for p parameters.
func moments(prior ntk.Prior, p int) (mu0, root []float64) {
	mu0, root = make([]float64, p), make([]float64, p)
	prior.MeanTo(mu0)
	prior.VarianceTo(root)
	for i, v := range root {
		if !(v >= 0) || math.IsInf(v, 1) {
			panic("weightspace: prior variance is not finite and nonnegative")
		}
		root[i] = math.Sqrt(v)
	}
	return mu0, root
}

// pseudoTargets returns b = r + Λ(f − m) (E5), N·C.
func (w *Posterior) pseudoTargets() []float64 {
	// m = F + J(μ₀ − θ*) (E2)
	m := w.functionAt(w.mu0)
	b := dense.Flat(w.sites.F)
	floats.Sub(b, m)
	b = mulBlocks(w.sites.Lambda, b)
	floats.Add(b, dense.Flat(w.sites.Residual))
	return b
}

// thetaAt returns θ = μ₀ + Σ₀^½ z.
func (w *Posterior) thetaAt(z []float64) []float64 { return unwhitened(z, w.mu0, w.root) }

// unwhitened returns θ = μ₀ + Σ₀^½ z.
func unwhitened(z, mu0, root []float64) []float64 {
	theta := slices.Clone(mu0)
	for i, s := range root {
		theta[i] += s * z[i]
	}
	return theta
}

// functionAt returns f_lin(x;θ) = F + J(θ − θ*) (E1) at the training examples.
func (w *Posterior) functionAt(theta []float64) []float64 {
	f := make([]float64, w.x.Len()*w.x.Outputs())
	w.linearTo(f, w.x, theta)
	return f
}

// linearTo writes F + J(θ − θ*) (E1) at the examples of x.
func (w *Posterior) linearTo(dst []float64, x *linearize.Batch, theta []float64) {
	d := make([]float64, len(theta))
	floats.SubTo(d, theta, w.theta)
	x.MulVecTo(dst, d)
	floats.Add(dst, dense.Flat(x.F))
}

// pullBack returns J̃ᵀ u.
func (w *Posterior) pullBack(u []float64) []float64 {
	g := make([]float64, len(w.theta))
	w.x.MulTransVecTo(g, u)
	floats.Mul(g, w.root)
	return g
}

// Mean returns θ̂, P numbers. It is the mean of the linear-Gaussian model, or
// after a refit the mode of the linearized model. It must not be changed.
func (w *Posterior) Mean() []float64 { return w.mean }

// Center returns the mean, P numbers, of the Gaussian that SampleTo draws from
// and that PredictTo describes. It is θ̂ after a refit and with Options.Mean =
// gp.LinearGaussian, and θ* otherwise. It must not be changed.
func (w *Posterior) Center() []float64 {
	if w.usesMean() {
		return w.mean
	}
	return w.theta
}

// usesMean tells whether the predictive mean is f_lin(x;θ̂) rather than x.F.
func (w *Posterior) usesMean() bool { return w.refit || w.o.Mean == gp.LinearGaussian }

// LogDet returns log det H + log det Σ₀ = log det H̃ = log det B.
func (w *Posterior) LogDet() float64 { return w.h.logDet }

// Sites returns the sites that the posterior is built on.
func (w *Posterior) Sites() *gp.Sites { return w.sites }

// Refitted tells whether the posterior came from a refit (E9).
func (w *Posterior) Refitted() bool { return w.refit }

// Warnings returns a warning of refit-steps where the refit ended before it
// converged, and one of refit-gap where it ended with a gradient that is not
// zero.
func (w *Posterior) Warnings() []error { return w.warnings }

// mulBlocks returns the product of the C×C blocks, N·C×C, with v, N·C.
func mulBlocks(blocks *mat.Dense, v []float64) []float64 {
	n, c := blocks.Dims()
	out := make([]float64, n)
	for i := range n {
		at := i / c * c
		out[i] = floats.Dot(blocks.RawRowView(i), v[at:at+c])
	}
	return out
}

// matrixOf returns v, N·C, as N×C in the same memory.
func matrixOf(v []float64, c int) *mat.Dense { return mat.NewDense(len(v)/c, c, v) }

// checkMatrix returns a *gp.NotFiniteError for the first entry of m that is NaN
// or Inf. m has one row per example, of which the first is example first.
func checkMatrix(what string, m *mat.Dense, first int) error {
	n, _ := m.Dims()
	for i := range n {
		row := m.RawRowView(i)
		if j := dense.NotFinite(row); j >= 0 {
			return &gp.NotFiniteError{What: what, Row: first + i, Output: j, Value: row[j]}
		}
	}
	return nil
}
