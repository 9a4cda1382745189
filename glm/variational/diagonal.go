package variational

import (
	"context"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	fblas "github.com/funcgp/funcgp/internal/blas"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// meanField is the diagonal approximation over the parameters. Its mean is that of the
// space with the full covariance at the same sites, so that a step in the mean is a
// Newton step.
type meanField struct {
	space
	x        *linearize.Batch
	theta    []float64
	mu0      []float64
	variance []float64 // of the prior
	sigma    []float64 // of the approximation, σ²
	sum      float64   // Σ_p σ²/Σ₀ − 1 − log(σ²/Σ₀)
	scatter  func() float64
	workers  int
}

func (d *meanField) condition(ctx context.Context, s *gp.Sites) error {
	if err := d.space.condition(ctx, s); err != nil {
		return err
	}
	return d.vary(ctx, s)
}

// vary sets σ² = 1/(1/Σ₀ + Σ_i (J_iᵀW_iJ_i)_pp).
func (d *meanField) vary(ctx context.Context, s *gp.Sites) error {
	h := make([]float64, len(d.theta))
	if err := squaresTo(ctx, h, d.x, s.Root, d.workers); err != nil {
		return err
	}
	d.sum = 0
	for p, v := range d.variance {
		t := v * h[p]
		d.sigma[p] = v / (1 + t)
		d.sum += math.Log1p(t) - t/(1+t)
	}
	return nil
}

func (d *meanField) covTo(_ context.Context, dst *mat.Dense) error {
	d.kernel().DiagTo(dst, d.x)
	return nil
}

// kernel returns x, x' ↦ J(x) diag(σ²) J(x')ᵀ.
func (d *meanField) kernel() *ntk.NTK {
	return ntk.New(gaussianOf{d.mu0, d.sigma}, d.theta, &ntk.Options{Workers: d.workers})
}

func (d *meanField) divergence(float64) float64 {
	// KL = ½(‖μ − μ₀‖² + Σ_p σ²/Σ₀ − 1 − log(σ²/Σ₀)), the norm in Σ₀⁻¹
	return (d.scatter() + d.sum) / 2
}

// gaussianOf is a Gaussian with a diagonal covariance, which may hold zeros.
type gaussianOf struct{ mean, variance []float64 }

var _ ntk.Prior = gaussianOf{}

func (g gaussianOf) MeanTo(dst []float64)     { copy(dst, g.mean) }
func (g gaussianOf) VarianceTo(dst []float64) { copy(dst, g.variance) }

// squaresTo writes Σ_i Σ_c (R_iᵀJ_i)_cp² for every parameter p, which is the diagonal
// of Σ_i J_iᵀR_iR_iᵀJ_i.
func squaresTo(ctx context.Context, dst []float64, x *linearize.Batch, root *mat.Dense, workers int) error {
	c := x.Outputs()
	const tile = 32 // examples
	tiles := par.Tiles(x.Len(), tile)
	wave := 16 // tiles that have sums of their own at a time
	parts := make([][]float64, min(wave, tiles))
	for i := range parts {
		parts[i] = make([]float64, len(dst))
	}
	clear(dst)
	for first := 0; first < tiles; first += wave {
		count := min(wave, tiles-first)
		err := par.Do(ctx, workers, count, func(k int) error {
			clear(parts[k])
			lo, hi := par.Bounds(first+k, x.Len(), tile)
			for _, b := range x.Slice(lo, hi).Blocks {
				addSquares(parts[k], b, dense.Slice(root, lo*c, hi*c), c)
			}
			return nil
		})
		if err != nil {
			return err
		}
		for _, part := range parts[:count] {
			dense.Axpy(dst, 1, part)
		}
	}
	return nil
}

// addSquares is squaresTo for one block of the Jacobian.
func addSquares(dst []float64, b linearize.Block, root *mat.Dense, c int) {
	rows, _ := root.Dims()
	j := mat.NewDense(rows, linearize.Width(b), nil)
	b.TileTo(j)
	rj := dense.New(c, linearize.Width(b))
	for i := 0; i < rows; i += c {
		// R_iᵀJ_i
		fblas.Gemm1(blas.Trans, blas.NoTrans, 1, dense.Slice(root, i, i+c).RawMatrix(), dense.Slice(j, i, i+c).RawMatrix(), 0, rj)
		at := 0
		for _, s := range b.Spans() {
			to := dst[s.Offset : s.Offset+s.Len()]
			for k := range c {
				for p, v := range dense.Row(rj, k)[at : at+s.Len()] {
					to[p] += v * v
				}
			}
			at += s.Len()
		}
	}
}
