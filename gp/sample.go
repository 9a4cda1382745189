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
func (e *Exact) SampleTo(ctx context.Context, dst *mat.Dense, x *linearize.Batch, rng *rand.Rand) error {
	t, c := e.checkInputs(x)
	s, cols := dst.Dims()
	if s == 0 || cols != t*c {
		panic("gp: destination has a wrong size")
	}
	var mean, cov, prior mat.Dense
	if err := e.JointTo(ctx, &mean, &cov, x); err != nil {
		return err
	}
	e.k.DiagTo(newDense(&prior, t*c, c), x)
	root, err := pivotedRoot(ctx, e.o.Workers, &cov, float64(e.g.n)*0x1p-52*largestDiagonal(&prior))
	if err != nil {
		return err
	}
	mu := dense.Flat(&mean)
	z := dense.New(s, root.Cols)
	for i := range z.Data {
		z.Data[i] = rng.NormFloat64()
	}
	for i := range s {
		copy(dst.RawRowView(i), mu)
	}
	if root.Cols > 0 {
		// f = mean + L z, L Lᵀ = cov
		return dense.GemmContext(ctx, e.o.Workers, blas.NoTrans, blas.Trans, 1, z, root, 1, dst.RawMatrix())
	}
	return nil
}

// pivotedRoot returns L, n×rank, with L Lᵀ = cov up to tol; it overwrites cov.
func pivotedRoot(ctx context.Context, workers int, cov *mat.Dense, tol float64) (blas64.General, error) {
	g := cov.RawMatrix()
	piv := make([]int, g.Rows)
	// Pᵀ cov P = L Lᵀ
	_, rank, err := dense.PstrfContext(ctx, workers, blas64.Symmetric{Uplo: blas.Lower, N: g.Rows, Stride: g.Stride, Data: g.Data}, piv, tol)
	if err != nil {
		return blas64.General{}, err
	}
	root := blas64.General{Rows: g.Rows, Cols: rank, Stride: max(1, rank), Data: make([]float64, g.Rows*rank)}
	for i, to := range piv {
		copy(root.Data[to*rank:(to+1)*rank], g.Data[i*g.Stride:][:min(i+1, rank)])
	}
	return root, nil
}

// largestDiagonal returns the largest variance in C×C blocks, N·C×C.
func largestDiagonal(blocks *mat.Dense) float64 {
	n, c := blocks.Dims()
	largest := 0.0
	for i := range n {
		largest = math.Max(largest, blocks.At(i, i%c))
	}
	return largest
}

// newDense sizes the empty m and returns it.
func newDense(m *mat.Dense, r, c int) *mat.Dense {
	m.ReuseAs(r, c)
	return m
}
