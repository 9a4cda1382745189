package weightspace

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/internal/newton"
	"github.com/funcgp/funcgp/internal/sites"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// DiagonalPosterior is the posterior with independent parameters, whose precision is the diagonal of H [glm 8]. The
// variance of parameter p is 1/(h_p + 1/σ²_p), with h_p = Σ_n (J_nᵀΛ_nJ_n)_pp and the prior variance σ²_p. The
// covariance of function values is the kernel of a prior with these variances.
type DiagonalPosterior struct {
	structured
	h        []float64 // h_p
	variance []float64
	kernel   *ntk.NTK // kernel of the prior N(center, diag(variance))
}

var _ Weights = (*DiagonalPosterior)(nil)

// FitDiagonal returns the posterior with independent parameters and the precision ggn + Σ₀⁻¹. ggn is a diagonal of
// the generalized Gauss–Newton matrix (GGN) from elsewhere, P numbers ≥ 0, such as an approximation of
// network.Network.GGNDiagonal. FitDiagonal reads no examples. Otherwise it is like FitStructure. It panics for a
// negative number in ggn.
func FitDiagonal(ggn []float64, x linearize.Source, s *gp.Sites, prior ntk.Prior, theta []float64, o *Options) (*DiagonalPosterior, error) {
	f, err := newStructured(Diagonal, x, s, prior, theta, o)
	if err != nil {
		return nil, err
	}
	f.setCenter()
	if len(ggn) != len(theta) {
		panic("weightspace: the diagonal of the GGN has another number of parameters than theta")
	}
	for _, h := range ggn {
		if h < 0 {
			panic("weightspace: the diagonal of the GGN is negative")
		}
	}
	return f.withSquares(slices.Clone(ggn))
}

// WithPrior returns the posterior with the same examples and sites and another prior. It reads no examples.
func (w *DiagonalPosterior) WithPrior(prior ntk.Prior) (*DiagonalPosterior, error) {
	f := w.structured
	f.prior, f.logDet, f.white = prior, 0, newton.NewWhitened(prior, len(w.theta))
	return f.withSquares(w.h)
}

// diagonal fits a DiagonalPosterior.
func (f *structured) diagonal(ctx context.Context) (*DiagonalPosterior, error) {
	err := gp.CheckMemory("the "+f.structure.String()+" posterior over the parameters", gp.Parameters, len(f.theta), f.o.Memory, func(p int) int64 {
		return memory.Mul(8*diagonalVectors, int64(p))
	})
	if err != nil {
		return nil, err
	}
	h, err := f.squares(ctx)
	if err != nil {
		return nil, err
	}
	return f.withSquares(h)
}

// diagonalVectors is the number of vectors of P numbers that a fit holds: ten of its own, and the sums over the
// examples that a network squares at a time.
const diagonalVectors = 26

// withSquares returns the posterior for the diagonal h.
func (f *structured) withSquares(h []float64) (*DiagonalPosterior, error) {
	w := &DiagonalPosterior{structured: *f, h: h, variance: make([]float64, len(h))}
	for p, h := range w.h {
		v := w.white.Root[p] * w.white.Root[p]
		// σ²/(1 + σ²h)
		w.variance[p] = v / (1 + v*h)
		w.logDet += math.Log1p(v * h)
	}
	if math.IsNaN(w.logDet) || math.IsInf(w.logDet, 0) {
		return nil, sites.PrecisionError(len(w.h))
	}
	w.kernel = ntk.New(independent{w.center, w.variance}, w.theta)
	return w, nil
}

// An independent is the Gaussian over independent parameters with these means and variances.
type independent struct{ mean, variance []float64 }

var _ ntk.Prior = independent{}

func (m independent) MeanTo(dst []float64)     { copy(dst, m.mean) }
func (m independent) VarianceTo(dst []float64) { copy(dst, m.variance) }

// GGN returns the diagonal of Σ_n J_nᵀΛ_nJ_n, P numbers, which must not be changed.
func (w *DiagonalPosterior) GGN() []float64 { return w.h }

// Variance returns the variances of the parameters, P numbers, which must not be changed.
func (w *DiagonalPosterior) Variance() []float64 { return w.variance }

// PredictTo writes the mean of the T examples of x, T×C, and the covariance J(x) Q⁻¹ J(x)ᵀ of each example's
// outputs, T·C×C. The error is a *gp.NotFiniteError for a NaN or Inf.
func (w *DiagonalPosterior) PredictTo(ctx context.Context, mean, cov *mat.Dense, x *linearize.Batch) error {
	return w.eachTile(ctx, mean, cov, x, func(cov *mat.Dense, _ int, tile *linearize.Batch) error {
		w.kernel.DiagTo(cov, tile)
		return nil
	})
}

// JointTo writes the mean, T×C, and the joint covariance of all outputs of all examples of x, T·C×T·C. The error is
// a *gp.MemoryError where the covariance needs more than Options.Memory.
func (w *DiagonalPosterior) JointTo(ctx context.Context, mean, cov *mat.Dense, x *linearize.Batch) error {
	return w.joint(ctx, mean, cov, x, 0, func() error { return w.kernel.BlockContextTo(ctx, cov, x, x) })
}

// SampleTo writes S draws of the parameters to the rows of dst, which must be S×P. The error is ctx.Err().
func (w *DiagonalPosterior) SampleTo(ctx context.Context, dst *mat.Dense, rng *rand.Rand) error {
	for i := range w.checkDraws(dst) {
		if err := ctx.Err(); err != nil {
			return err
		}
		for p, row := 0, dst.RawRowView(i); p < len(row); p++ {
			row[p] = w.center[p] + math.Sqrt(w.variance[p])*rng.NormFloat64()
		}
	}
	return nil
}
