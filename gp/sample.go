package gp

import (
	"context"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize"
)

// SampleTo writes S draws of all outputs of all examples of x from the joint
// posterior (E6), one in each row of dst, which must be S×T·C. It factors the
// joint covariance by Cholesky with complete pivoting, which also works where the
// covariance is singular: a direction whose variance is below rounding, NC·ε of
// the largest prior variance, does not vary. It takes the memory of JointTo.
func (p *Posterior) SampleTo(ctx context.Context, dst *mat.Dense, x *linearize.Batch, rng *rand.Rand) error {
	t, c := p.mean.Set.Check(x)
	s, cols := dst.Dims()
	if s == 0 || cols != t*c {
		panic("gp: destination has a wrong size")
	}
	var mean, cov, prior mat.Dense
	if err := p.JointTo(ctx, &mean, &cov, x); err != nil {
		return err
	}
	prior.ReuseAs(t*c, c)
	p.mean.Kernel.DiagTo(&prior, x)
	largest := 0.0
	for i := range t * c {
		largest = math.Max(largest, prior.At(i, i%c))
	}
	g := cov.RawMatrix()
	piv := make([]int, g.Rows)
	// Pᵀ cov P = L Lᵀ
	_, rank, err := dense.PstrfContext(ctx, dense.Lower(g), piv, float64(len(dense.Contiguous(p.mean.Sites.F)))*epsilon*largest)
	if err != nil {
		return err
	}
	root := blas64.General{Rows: g.Rows, Cols: rank, Stride: max(1, rank), Data: make([]float64, g.Rows*rank)}
	for i, to := range piv {
		copy(root.Data[to*rank:(to+1)*rank], g.Data[i*g.Stride:][:min(i+1, rank)])
	}
	z := dense.New(s, rank)
	for i := range z.Data {
		z.Data[i] = rng.NormFloat64()
	}
	mu := dense.Flat(&mean)
	for i := range s {
		copy(dst.RawRowView(i), mu)
	}
	if rank == 0 {
		return nil
	}
	// f = mean + L z, L Lᵀ = cov
	return dense.GemmContext(ctx, blas.NoTrans, blas.Trans, 1, z, root, 1, dst.RawMatrix())
}
