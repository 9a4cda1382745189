package variational

import (
	"context"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// An Algorithm says where the residuals, the Λ and the Jacobians of an update are taken
// [thesis table 4.2].
type Algorithm int

// The algorithms.
const (
	// VOGGN is the variational online generalized Gauss–Newton update: all of them at
	// the network with parameters drawn from q.
	VOGGN Algorithm = iota
	// LGVA is the linearized Gaussian variational approximation: residuals and Λ at the
	// draws under the model linearized at μ, Jacobians at μ.
	LGVA
	// OGGN is the online generalized Gauss–Newton update: all of them at μ, without draws.
	OGGN
)

var algorithmNames = [...]string{"VOGGN", "LGVA", "OGGN"}

// String returns "VOGGN", "LGVA" or "OGGN".
func (a Algorithm) String() string {
	if a < 0 || int(a) >= len(algorithmNames) {
		return fmt.Sprintf("Algorithm(%d)", int(a))
	}
	return algorithmNames[a]
}

// A Natural updates a Gaussian q over the parameters of a network by natural gradients
// of the lower bound, with the generalized Gauss–Newton approximation of its Hessian
// [thesis eq. 4.2–4.12]. An update forms and factors a P×P matrix.
type Natural struct {
	Algorithm  Algorithm
	Likelihood gp.Likelihood
	Prior      ntk.Prior
	Rate       float64 // γ, in (0, 1]

	// At returns the linearization of the network with parameters theta at the rows
	// of x.
	At func(ctx context.Context, theta []float64, x *mat.Dense) (*linearize.Batch, error)

	MaxMemory int64 // bytes; 0 means 80 % of the machine's free memory
}

// A Network is a model N that can be linearized at other parameters, such as
// *network.Network.
type Network[N any] interface {
	// WithTheta returns the model with the parameters theta, length P.
	WithTheta(theta []float64) (N, error)
	// Linearize returns its outputs and its Jacobian at the rows of x.
	Linearize(ctx context.Context, x *mat.Dense) (*linearize.Batch, error)
}

// NewNatural returns the updates of a network with rate γ.
func NewNatural[N Network[N]](a Algorithm, net N, lik gp.Likelihood, prior ntk.Prior, rate float64) *Natural {
	at := func(ctx context.Context, theta []float64, x *mat.Dense) (*linearize.Batch, error) {
		n, err := net.WithTheta(theta)
		if err != nil {
			return nil, err
		}
		return n.Linearize(ctx, x)
	}
	return &Natural{Algorithm: a, Likelihood: lik, Prior: prior, Rate: rate, At: at}
}

// Step returns the Gaussian after one update with the draws in the rows of samples,
// S×P, which OGGN does not use:
//
//	Σ⁻¹ ← (1−γ)Σ⁻¹ + γΣ₀⁻¹ + γH̄,   μ ← μ + γΣ(ḡ − Σ₀⁻¹(μ − μ₀)),
//
// with the new Σ, ḡ = (w/S) Σ_s Σ_i Ĵᵀr(f̂_s) and H̄ = (w/S) Σ_s Σ_i ĴᵀΛ(f̂_s)Ĵ. The second
// equation is Σ⁻¹μ ← (1−γ)Σ⁻¹μ + γΣ₀⁻¹μ₀ + γ(ḡ + H̄μ). Each example, a row of x and of y,
// counts w = weight times, which is N/B for B of N examples.
//
// The errors are those of At, of gp.NewSites, a *gp.MemoryError, and a *gp.NotPDError
// where the precision overflows. Step panics where sizes differ and where γ or weight is
// not in its range.
func (v *Natural) Step(ctx context.Context, q *Gaussian, samples, x, y *mat.Dense, weight float64) (*Gaussian, error) {
	p := len(q.mean)
	if !(v.Rate > 0 && v.Rate <= 1) || !(weight > 0) || v.Algorithm < VOGGN || v.Algorithm > OGGN {
		panic("variational: an update needs one of the algorithms, a rate in (0, 1] and a positive weight")
	}
	if err := checkParameters(p, 2, v.MaxMemory); err != nil {
		return nil, err
	}
	to := &Gaussian{precision: newSymmetric(p)}
	mu0, variance := make([]float64, p), make([]float64, p)
	v.Prior.MeanTo(mu0)
	v.Prior.VarianceTo(variance)
	// (1−γ)Σ⁻¹ + γΣ₀⁻¹
	copy(to.precision.Data, q.precision.Data)
	floats.Scale(1-v.Rate, to.precision.Data)
	for i, s := range variance {
		to.precision.Data[i*p+i] += v.Rate / s
	}
	parts, err := v.parts(ctx, q, samples, x, y)
	if err != nil {
		return nil, err
	}
	gradient, jr := make([]float64, p), make([]float64, p)
	share := weight / float64(len(parts))
	for _, part := range parts {
		part.x.MulTransVecTo(jr, dense.Flat(part.residual))
		floats.AddScaled(gradient, share, jr)
		if err := v.addGGN(ctx, to, part, v.Rate*share); err != nil {
			return nil, err
		}
	}
	for i, s := range variance {
		gradient[i] -= (q.mean[i] - mu0[i]) / s
	}
	to.mean = slices.Clone(q.mean)
	if err := to.factor(ctx); err != nil {
		return nil, err
	}
	// Σ times the gradient
	dense.Trsv(blas.Trans, to.u, dense.Vector(gradient))
	dense.Trsv(blas.NoTrans, to.u, dense.Vector(gradient))
	floats.AddScaled(to.mean, v.Rate, gradient)
	if i := dense.NotFinite(to.mean); i >= 0 {
		return nil, fmt.Errorf("variational: the mean of parameter %d is %v after an update; take a smaller rate", i, to.mean[i])
	}
	return to, nil
}

// A naturalPart is what one draw contributes, or all draws that have the same Jacobian.
type naturalPart struct {
	x        *linearize.Batch
	residual *mat.Dense // N×C
	root     *mat.Dense // R with Λ = R Rᵀ, N·C×C
}

// parts returns what an update sums over.
func (v *Natural) parts(ctx context.Context, q *Gaussian, samples, x, y *mat.Dense) ([]naturalPart, error) {
	at := func(theta []float64) (*linearize.Batch, error) {
		b, err := v.At(ctx, theta, x)
		if err == nil && b.P != len(q.mean) {
			panic("variational: the network has another number of parameters than q")
		}
		return b, err
	}
	if v.Algorithm != OGGN {
		if s, p := samples.Dims(); s == 0 || p != len(q.mean) {
			panic("variational: samples are not S×P")
		}
	}
	if v.Algorithm == VOGGN {
		parts := make([]naturalPart, dense.Count(samples))
		for s := range parts {
			b, err := at(samples.RawRowView(s))
			if err != nil {
				return nil, fmt.Errorf("variational: draw %d: %w", s, err)
			}
			sites, err := gp.NewSites(gp.NewTargets(y, v.Likelihood), b.F)
			if err != nil {
				return nil, fmt.Errorf("variational: draw %d: %w", s, err)
			}
			parts[s] = naturalPart{b, sites.Residual, sites.Root}
		}
		return parts, nil
	}
	b, err := at(q.mean)
	if err != nil {
		return nil, err
	}
	if v.Algorithm == OGGN {
		sites, err := gp.NewSites(gp.NewTargets(y, v.Likelihood), b.F)
		if err != nil {
			return nil, err
		}
		return []naturalPart{{b, sites.Residual, sites.Root}}, nil
	}
	part, err := v.linearized(b, q.mean, samples, y)
	return []naturalPart{part}, err
}

// linearized averages residuals and Λ over draws of the model linearized at μ.
func (v *Natural) linearized(b *linearize.Batch, mu []float64, samples, y *mat.Dense) (naturalPart, error) {
	n, c := b.F.Dims()
	draws, d, f := dense.Count(samples), make([]float64, len(mu)), make([]float64, n*c)
	out := naturalPart{b, mat.NewDense(n, c, nil), mat.NewDense(n*c, c, nil)}
	lambda := mat.NewDense(n*c, c, nil)
	share := 1 / float64(draws)
	for s := range draws {
		// f̂_s = f(x;μ) + J(θ_s − μ)
		floats.SubTo(d, samples.RawRowView(s), mu)
		b.MulVecTo(f, d)
		floats.Add(f, dense.Flat(b.F))
		sites, err := gp.NewSites(gp.NewTargets(y, v.Likelihood), mat.NewDense(n, c, f))
		if err != nil {
			return out, fmt.Errorf("variational: draw %d: %w", s, err)
		}
		floats.AddScaled(out.residual.RawMatrix().Data, share, sites.Residual.RawMatrix().Data)
		floats.AddScaled(lambda.RawMatrix().Data, share, sites.Lambda.RawMatrix().Data)
	}
	for i := range n {
		rootTo(dense.Slice(out.root, i*c, (i+1)*c), dense.Slice(lambda, i*c, (i+1)*c))
	}
	return out, nil
}

// addGGN adds factor·Σ_i ĴᵀRRᵀĴ to the precision, a tile of examples at a time.
func (v *Natural) addGGN(ctx context.Context, q *Gaussian, part naturalPart, factor float64) error {
	n, c := part.x.F.Dims()
	p := len(q.precision.Data) / q.precision.N
	step := min(linearize.Tile(c), n)
	j, rj := mat.NewDense(step*c, p, nil), dense.New(step*c, p)
	for lo := 0; lo < n; lo += step {
		hi := min(lo+step, n)
		tile := dense.Slice(j, 0, (hi-lo)*c)
		part.x.Slice(lo, hi).JacobianTo(tile)
		for i := range hi - lo {
			// R_iᵀ Ĵ_i
			dense.Gemm1(blas.Trans, blas.NoTrans, 1, dense.Slice(part.root, (lo+i)*c, (lo+i+1)*c).RawMatrix(),
				dense.Slice(tile, i*c, (i+1)*c).RawMatrix(), 0, dense.Rows(rj, i*c, (i+1)*c))
		}
		if err := dense.SyrkContext(ctx, blas.Trans, factor, dense.Rows(rj, 0, (hi-lo)*c), 1, q.precision); err != nil {
			return err
		}
	}
	return nil
}
