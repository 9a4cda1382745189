package autoencoder

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/minimize"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// A Posterior is the Gaussian N(θ, diag(h+δ)⁻¹) over the P parameters of an autoencoder. h is the diagonal of a
// generalized Gauss–Newton matrix, δ the precision of the prior. It is immutable and safe for concurrent use.
type Posterior struct {
	a      *Autoencoder
	h      []float64
	prior  float64
	noise  float64
	kernel *ntk.NTK // with variances 1/(h+δ)
}

// NewPosterior returns the posterior with mean θ of a, the diagonal h of P numbers ≥ 0, the prior precision prior
// and the noise variance noise of a pixel. It panics for other lengths or signs, and where a variance 1/(h+δ) is
// not finite.
func NewPosterior(a *Autoencoder, h []float64, prior, noise float64) *Posterior {
	_, _, p := a.net.Dims()
	if len(h) != p || !(prior >= 0) || !(noise > 0) {
		panic("autoencoder: the diagonal has wrong length, or prior precision or noise variance is negative")
	}
	variance := make([]float64, p)
	for i, v := range h {
		if variance[i] = 1 / (v + prior); !(v >= 0) || math.IsInf(variance[i], 0) {
			panic("autoencoder: the precision of a parameter is not positive")
		}
	}
	theta := a.net.Theta()
	d, err := ntk.NewDiagonal(variance, theta)
	must(err)
	return &Posterior{a: a, h: slices.Clone(h), prior: prior, noise: noise, kernel: ntk.New(d, theta)}
}

// fitRows is the number of rows between two calls of Progress.
const fitRows = 1000

// Fit returns the posterior at trained parameters (post hoc), under a prior of precision δ = prior and the variance
// σ² = noise of a pixel. h is the diagonal of Σ JᵀJ/σ² over the rows of x, N×D, whose numbers are from 0 to 1.
// progress, if not nil, is called with the number of rows that are summed.
func Fit(ctx context.Context, a *Autoencoder, x *mat.Dense, curvature Curvature, prior, noise float64, progress func(done, total int)) (*Posterior, error) {
	if !(prior > 0) || !(noise > 0) || math.IsInf(prior, 0) || math.IsInf(noise, 0) {
		return nil, fmt.Errorf("autoencoder: prior precision %v and noise variance %v must be positive numbers", prior, noise)
	}
	if err := a.Check(x); err != nil {
		return nil, err
	}
	if progress == nil {
		progress = func(int, int) {}
	}
	return fit(ctx, a, x, curvature, prior, noise, progress)
}

// fit is Fit without the check that numbers are from 0 to 1.
func fit(ctx context.Context, a *Autoencoder, x *mat.Dense, curvature Curvature, prior, noise float64, progress func(done, total int)) (*Posterior, error) {
	_, _, p := a.net.Dims()
	h, part, n := make([]float64, p), make([]float64, p), dense.Count(x)
	for lo := 0; lo < n; lo += fitRows {
		progress(lo, n)
		if err := a.net.GGNDiagonal(ctx, part, dense.Slice(x, lo, min(lo+fitRows, n)), nil, curvature.backpropagation()); err != nil {
			return nil, fmt.Errorf("autoencoder: rows from %d: %w", lo, err)
		}
		dense.Axpy(h, 1/noise, part)
	}
	progress(n, n)
	return NewPosterior(a, h, prior, noise), nil
}

// Autoencoder returns the autoencoder at the mean parameters.
func (p *Posterior) Autoencoder() *Autoencoder { return p.a }

// GGN returns h, the diagonal of the generalized Gauss–Newton matrix, P numbers, which must not be changed.
func (p *Posterior) GGN() []float64 { return p.h }

// Prior returns the precision δ of the prior. After Train it is what the Rule has left of TrainOptions.Prior.
func (p *Posterior) Prior() float64 { return p.prior }

// Noise returns the variance σ² of a pixel.
func (p *Posterior) Noise() float64 { return p.noise }

// WithPrior returns the posterior with the same h and the prior precision prior.
func (p *Posterior) WithPrior(prior float64) *Posterior {
	return NewPosterior(p.a, p.h, prior, p.noise)
}

// LogDet returns Σ log(1 + h/δ): the log determinant of the posterior precision less the log determinant of the
// prior precision.
func (p *Posterior) LogDet() float64 {
	sum := 0.0
	for _, v := range p.h {
		sum += math.Log1p(v / p.prior)
	}
	return sum
}

// LogEvidence returns the Laplace evidence (E7) of the rows of x in nats, for a prior with mean 0. x must be the
// rows that the posterior was fitted to.
func (p *Posterior) LogEvidence(ctx context.Context, x *mat.Dense) (float64, error) {
	f, err := p.a.net.Forward(ctx, x)
	if err != nil {
		return 0, err
	}
	var d mat.Dense
	d.Sub(x, f)
	squares := mat.Norm(&d, 2)
	rows, c := f.Dims()
	logLik := -squares*squares/(2*p.noise) - 0.5*float64(rows*c)*math.Log(2*math.Pi*p.noise)
	theta := p.a.net.Theta()
	return logLik - p.prior*floats.Dot(theta, theta)/2 - p.LogDet()/2, nil
}

// TunePrior returns the posterior with the same h and the prior precision under which LogEvidence is highest. The
// error reports a θ or an h of zeros, with which no precision is best.
func (p *Posterior) TunePrior(ctx context.Context) (*Posterior, error) {
	// With δ = e^t, the part of the log evidence that depends on δ, −½(δ‖θ‖² + Σ log(1 + h/δ)), is concave in t. It is
	// highest at δ‖θ‖² = Σ h/(h+δ), which is below the number of parameters and at least h/(h+δ) of the largest h.
	theta := p.a.net.Theta()
	scatter, most := floats.Dot(theta, theta), floats.Max(p.h)
	hi := math.Log(float64(len(theta)) / scatter)
	lo := min(math.Log(0.5/scatter), math.Log(most))
	if math.IsInf(hi, 0) || math.IsInf(lo, 0) {
		return nil, errors.New("autoencoder: the evidence has no maximum over the prior precision, as the parameters or their curvature are zero; give the precision")
	}
	r, err := minimize.Search(ctx, minimize.Grid(lo-1, hi+1, 20), 1e-4, minimize.Each(func(_ context.Context, t float64) (float64, error) {
		q := *p
		q.prior = math.Exp(t)
		return q.prior*scatter/2 + q.LogDet()/2, nil
	}))
	if err != nil {
		return nil, fmt.Errorf("autoencoder: the prior precision of highest evidence: %w", err)
	}
	return p.WithPrior(math.Exp(r.X)), nil
}

// A Linear is the prediction of the linearized network: the pixels f and the codes z are Gaussian with the
// covariance J diag(h+δ)⁻¹ Jᵀ.
type Linear struct {
	Mean, Variance *mat.Dense // of the pixels, N×D, at the mean parameters and without noise
	Latent         *mat.Dense // mean of the codes, N×L
	LatentCov      *mat.Dense // covariance of the codes, N·L×L, one L×L block for each row
}

// Linearized returns the means and variances of the linearized network for the rows of x. It takes D + L backward
// passes for each row; Draw takes one forward pass for each drawn network.
func (p *Posterior) Linearized(ctx context.Context, x *mat.Dense) (*Linear, error) {
	z, f, err := p.a.Encode(ctx, x)
	if err != nil {
		return nil, err
	}
	n, d := x.Dims()
	l := p.a.latent
	out := &Linear{Mean: mat.DenseCopyOf(f), Variance: mat.NewDense(n, d, nil), Latent: mat.DenseCopyOf(z), LatentCov: mat.NewDense(n*l, l, nil)}
	for i := range n {
		row := dense.Slice(x, i, i+1)
		b, err := p.a.linearize(ctx, row, 0, l)
		if err != nil {
			return nil, err
		}
		p.kernel.DiagTo(dense.Slice(out.LatentCov, i*l, (i+1)*l), b)
		// The pixels go in tiles of pixelTile: DiagTo forms the full covariance of a tile.
		for lo := 0; lo < d; lo += pixelTile {
			if b, err = p.a.linearize(ctx, row, l+lo, l+min(lo+pixelTile, d)); err != nil {
				return nil, err
			}
			var cov mat.Dense
			p.kernel.DiagTo(&cov, b)
			for k := range b.Outputs() {
				out.Variance.Set(i, lo+k, cov.At(k, k))
			}
		}
	}
	return out, ctx.Err()
}

// pixelTile is the number of pixels whose covariance is formed at once.
const pixelTile = 16

// linearize returns the Jacobians of elements lo to hi−1 of the outputs (z, f) of joint, for the rows of x.
func (a *Autoencoder) linearize(ctx context.Context, x *mat.Dense, lo, hi int) (*linearize.Batch, error) {
	_, c, _ := a.joint.Dims()
	n := dense.Count(x)
	w := mat.NewDense(n*(hi-lo), c, nil)
	for i := range n * (hi - lo) {
		w.Set(i, lo+i%(hi-lo), 1)
	}
	return a.joint.LinearizeCombined(ctx, x, w)
}
