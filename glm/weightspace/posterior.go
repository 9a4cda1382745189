package weightspace

import (
	"context"
	"math"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/newton"
	"github.com/funcgp/funcgp/internal/sites"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// Posterior is the Gaussian posterior N(θ̂, H⁻¹) over all P parameters of the linearized model, with H = JᵀΛJ +
// Σ₀⁻¹. It also predicts function values. It forms a P×P matrix and no kernel, where gp.Exact forms an N·C×N·C
// matrix. Both give the same numbers: Validate compares them.
//
// It computes in whitened parameters z, θ = μ₀ + Σ₀^½ z. Their Jacobian is J̃ = J Σ₀^½ and their precision is H̃ =
// Σ₀^½ H Σ₀^½ = I + J̃ᵀΛJ̃, whose determinant equals det B (E4). Λ may be singular and Σ₀ may have zeros. H̃ needs
// no jitter, because its eigenvalues are at least 1.
type Posterior struct {
	BlockPosterior // one block of all parameters
	x              *linearize.Batch
	refit          bool
	conditioned    *gp.Sites // sites at which H̃ was factored; nil without a factor
	formed         *gp.Sites // sites at which the JᵀΛJ in memory was summed; nil without one
	scale          float64   // the factor s with Λ of H̃ = s times Λ at formed

	start []float64 // parameters at which a refit starts; nil for θ*
	z     []float64 // ẑ = Σ₀^-½(θ̂ − μ₀)
	mean  []float64 // θ̂
}

var _ gp.Latent = (*Posterior)(nil)

// Fit returns the posterior over the parameters for the training examples b, linearized at theta = θ*, and their
// sites s. The precision is H = JᵀΛJ + Σ₀⁻¹. The mean is the linear-Gaussian model's, θ̂ = μ₀ + H⁻¹Jᵀb, with the
// pseudo-targets b of (E5). It takes slightly more than 8·P² bytes (see Bytes) and about (N·C·P² + P³/3)/2
// multiplications.
//
// The error is a *gp.MemoryError before anything large is allocated, a *gp.NotFiniteError where a number is NaN or
// Inf, a *gp.NotPDError where H overflows, or ctx.Err(). Fit panics where sizes differ, and where a prior variance
// is negative or not finite.
func Fit(ctx context.Context, b *linearize.Batch, s *gp.Sites, prior ntk.Prior, theta []float64, o *Options) (*Posterior, error) {
	w, err := newPosterior(b, s, prior, theta, o)
	if err != nil {
		return nil, err
	}
	if err := w.condition(ctx, s); err != nil {
		return nil, err
	}
	// b = r + Λ(f − m) (E5), with m = F + J(μ₀ − θ*) (E2)
	pseudo, m := make([]float64, len(w.local.F)), w.functionAt(w.white.Mean)
	w.local.PseudoTargets(pseudo, m)
	if w.o.Mean == gp.Network {
		var u gp.Untrained
		u.Add(dense.Flat(b.F), m)
		w.warnings = append(w.warnings, u.Warnings(s)...)
	}
	if err := sites.NotFinite("pseudo-target", pseudo, 0, w.c); err != nil {
		return nil, err
	}
	// ẑ = H̃⁻¹ J̃ᵀ b
	z := w.pullBack(pseudo)
	w.h[0].solve(z)
	w.setMean(z)
	return w, ctx.Err()
}

// newPosterior returns a posterior without factor, which condition adds. It checks the sizes and the memory that
// the posterior will take.
func newPosterior(b *linearize.Batch, s *gp.Sites, prior ntk.Prior, theta []float64, o *Options) (*Posterior, error) {
	if len(theta) != b.P {
		panic("weightspace: the length of theta is not the batch's number of parameters")
	}
	base, err := newStructured(Full, b, s, prior, theta, o)
	if err != nil {
		return nil, err
	}
	checkModel(base.model, b)
	w := &Posterior{BlockPosterior: BlockPosterior{structured: *base, groups: []group{allOf(b.P)}, h: []precision{{beside: true}}}, x: b}
	if from := w.o.Reuse; from != nil {
		w.o.Reuse = nil
		w.start = from.start
		if from.refit {
			w.start = from.mean
		}
		if from.x == b && !from.h[0].shared {
			w.h[0].data, w.formed, from.h[0].data = from.h[0].data, from.formed, nil
			return w, nil
		}
	}
	return w, w.checkBlocks()
}

// condition makes s the sites of w and factors H̃ at them. It keeps the present factor where that belongs to the
// same Λ.
func (w *Posterior) condition(ctx context.Context, s *gp.Sites) error {
	w.sites, w.local = s, sites.Of(s)
	if err := ctx.Err(); err != nil || w.factoredAt(s) {
		return err
	}
	w.conditioned = nil
	if err := w.form(ctx, s); err != nil {
		return err
	}
	h, p := &w.h[0], len(w.theta)
	if err := h.whiten(ctx, w.white.Root, w.scale); err != nil {
		return err
	}
	if err := h.factor(ctx, p); err != nil {
		return err
	}
	w.logDet, w.conditioned = h.logDet, s
	return nil
}

// form sums JᵀΛJ at the sites s. If Λ at s is a multiple of Λ at the sites of the sums in memory, as for another noise
// variance, it only sets scale.
func (w *Posterior) form(ctx context.Context, s *gp.Sites) error {
	h, p := &w.h[0], len(w.theta)
	if h.shared || len(h.data) < p*(p+1) {
		h.data, h.shared, w.formed = make([]float64, p*(p+1)), false, nil
	}
	if w.formed != nil {
		if v, ok := multiple(dense.Contiguous(w.formed.Lambda), dense.Contiguous(s.Lambda)); ok {
			w.scale = v
			return nil
		}
	}
	w.formed, w.scale = nil, 1
	to := h.ggn(p)
	for i := range p {
		clear(to.Data[i*to.Stride:][:i+1])
	}
	if err := w.sum(ctx, nil, func(int) blas64.Symmetric { return to }); err != nil {
		return err
	}
	w.formed = s
	return nil
}

// multiple returns s with b = s·a up to rounding. ok is false if there is no such s.
func multiple(a, b []float64) (s float64, ok bool) {
	largest := 0
	for i, v := range a {
		if math.Abs(v) > math.Abs(a[largest]) {
			largest = i
		}
	}
	if s = b[largest] / a[largest]; !(s > 0) {
		return 0, false
	}
	for i, v := range a {
		if !(math.Abs(s*v-b[i]) <= 1e-15*math.Abs(b[i])) {
			return 0, false
		}
	}
	return s, true
}

// factoredAt tells whether the present factor is the factor of H̃ at s. It compares the roots R of Λ = R Rᵀ, because
// only they enter H̃.
func (w *Posterior) factoredAt(s *gp.Sites) bool {
	return w.conditioned != nil && (w.conditioned == s || mat.Equal(w.conditioned.Root, s.Root))
}

// setMean sets ẑ to z, and θ̂ from it.
func (w *Posterior) setMean(z []float64) {
	w.z, w.mean = z, w.white.Theta(z)
	if w.usesMean() {
		w.center = w.mean
	}
}

// checkModel panics if the parameters of b and m are known and differ. b may come from another graph: the posterior
// over θ is a posterior of any function of θ.
func checkModel(m linearize.ModelFingerprint, b *linearize.Batch) {
	if d := (linearize.ModelFingerprint{Parameters: m.Parameters}).Mismatch(b.Model); d != "" {
		panic("weightspace: the examples are not linearized at θ* of the posterior: " + d + "; linearize all with one network, at theta")
	}
}

// functionAt returns f_lin(x;θ) = F + J(θ − θ*) (E1) at the training examples.
func (w *Posterior) functionAt(theta []float64) []float64 {
	f := make([]float64, w.n*w.c)
	_ = linearize.ProductsOf(w.x).MulVecTo(context.Background(), f, newton.Minus(theta, w.theta)) // fails only if ctx is done
	floats.Add(f, dense.Flat(w.x.F))
	return f
}

// pullBack returns J̃ᵀ u.
func (w *Posterior) pullBack(u []float64) []float64 {
	g := make([]float64, len(w.theta))
	w.x.MulTransVecTo(g, u)
	floats.Mul(g, w.white.Root)
	return g
}

// Mean returns θ̂, P numbers, which must not be changed. It is the mean of the linear-Gaussian model or, after a
// refit, the mode of the linearized model.
func (w *Posterior) Mean() []float64 { return w.mean }

// usesMean tells whether the predictive mean is f_lin(x;θ̂) and not x.F.
func (w *Posterior) usesMean() bool { return w.refit || w.o.Mean == gp.LinearGaussian }

// Refitted tells whether the posterior is the result of a refit (E9).
func (w *Posterior) Refitted() bool { return w.refit }

// checkMatrix returns a *gp.NotFiniteError for the first NaN or Inf in m. m has one row for each example, from
// example first on.
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
