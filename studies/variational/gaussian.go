package variational

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/linearize"
)

// A Gaussian is N(μ, Σ) over the P parameters, with its precision Σ⁻¹ = UᵀU as a P×P
// matrix. It is read-only.
type Gaussian struct {
	mean      []float64
	precision blas64.Symmetric // its upper triangle
	u         blas64.Triangular
	logDet    float64
}

var _ weightspace.Draws = (*Gaussian)(nil)

// NewGaussian returns the Gaussian with these means and independent variances. Both
// are copied. A mean that is not finite and a variance that is not positive and finite
// are errors that name the parameter.
func NewGaussian(mean, variance []float64) (*Gaussian, error) {
	p := len(mean)
	if p == 0 || len(variance) != p {
		panic("variational: as many means as variances are needed, and at least one")
	}
	q := &Gaussian{mean: slices.Clone(mean), precision: newSymmetric(p)}
	for i, v := range variance {
		if !(v > 0) || math.IsInf(v, 1) || math.IsInf(1/v, 1) {
			return nil, fmt.Errorf("variational: the variance of parameter %d is %v; it must be positive and finite", i, v)
		}
		q.precision.Data[i*p+i] = 1 / v
	}
	return q, q.factor(context.Background())
}

// NewGaussianOf returns the Gaussian with this mean and this precision, which are copied.
// A precision that is not positive definite is a *gp.NotPDError.
func NewGaussianOf(mean []float64, precision mat.Symmetric) (*Gaussian, error) {
	p := len(mean)
	if p == 0 || precision.SymmetricDim() != p {
		panic("variational: mean and precision differ in size")
	}
	q := &Gaussian{mean: slices.Clone(mean), precision: newSymmetric(p)}
	for i := range p {
		for j := i; j < p; j++ {
			q.precision.Data[i*p+j] = precision.At(i, j)
		}
	}
	return q, q.factor(context.Background())
}

func newSymmetric(p int) blas64.Symmetric {
	return blas64.Symmetric{Uplo: blas.Upper, N: p, Stride: p, Data: make([]float64, p*p)}
}

// factor computes U and the determinant.
func (q *Gaussian) factor(ctx context.Context) error {
	p := len(q.mean)
	if i := dense.NotFinite(q.mean); i >= 0 {
		return fmt.Errorf("variational: the mean of parameter %d is %v; take a smaller step", i, q.mean[i])
	}
	u := newSymmetric(p)
	copy(u.Data, q.precision.Data)
	var ok bool
	var err error
	if q.u, ok, err = dense.PotrfContext(ctx, u); err != nil {
		return err
	}
	for i := range p {
		q.logDet += 2 * math.Log(u.Data[i*p+i])
	}
	if !ok || math.IsNaN(q.logDet) || math.IsInf(q.logDet, 0) {
		return &gp.NotPDError{What: "the precision of the parameters", N: p, Reason: "scale the inputs or take a smaller step"}
	}
	return nil
}

// Mean returns μ, which must not be changed.
func (q *Gaussian) Mean() []float64 { return q.mean }

// Center returns μ, which must not be changed.
func (q *Gaussian) Center() []float64 { return q.mean }

// LogDet returns log det Σ⁻¹.
func (q *Gaussian) LogDet() float64 { return q.logDet }

// Precision returns Σ⁻¹, which must not be changed.
func (q *Gaussian) Precision() *mat.SymDense {
	var s mat.SymDense
	s.SetRawSymmetric(q.precision)
	return &s
}

// SampleTo writes S draws of the parameters to the rows of dst, S×P, which must be
// sized. Its error is ctx.Err().
func (q *Gaussian) SampleTo(ctx context.Context, dst *mat.Dense, rng *rand.Rand) error {
	s, p := dst.Dims()
	if s == 0 || p != len(q.mean) {
		panic("variational: destination is not S×P")
	}
	for i := range s {
		for j, row := 0, dst.RawRowView(i); j < p; j++ {
			row[j] = rng.NormFloat64()
		}
	}
	// θ = μ + U⁻¹ε
	if err := dense.TrsmContext(ctx, blas.Right, blas.Trans, 1, q.u, dst.RawMatrix()); err != nil {
		return err
	}
	for i := range s {
		floats.Add(dst.RawRowView(i), q.mean)
	}
	return nil
}

// Linearized returns the function values of a model that is linearized at theta, for
// parameters with this distribution: f(x;θ) + J(x)(μ − θ) and J(x) Σ J(x)ᵀ. With
// theta = Mean() the mean is f(x;μ).
func (q *Gaussian) Linearized(theta []float64) gp.Latent {
	if len(theta) != len(q.mean) {
		panic("variational: theta has another number of parameters")
	}
	return &latent{q: q, shift: floats.SubTo(make([]float64, len(theta)), q.mean, theta)}
}

// A latent predicts at examples that are linearized at μ − shift.
type latent struct {
	q     *Gaussian
	shift []float64
}

var _ gp.Latent = (*latent)(nil)

// PredictTo writes the mean, T×C, and each example's covariance, T·C×C.
func (l *latent) PredictTo(ctx context.Context, mean, cov *mat.Dense, x *linearize.Batch) error {
	t, c := l.checkInputs(x), x.Outputs()
	if t == 0 {
		return ctx.Err()
	}
	l.meanTo(mean, x)
	dense.SizeTo(cov, t*c, c)
	for lo, step := 0, linearize.Tile(c); lo < t && cov != nil; lo += step {
		hi := min(lo+step, t)
		v, err := l.half(ctx, x.Slice(lo, hi))
		if err != nil {
			return err
		}
		for i := range hi - lo {
			rows := dense.Rows(v, i*c, (i+1)*c)
			dense.Gemm1(blas.NoTrans, blas.Trans, 1, rows, rows, 0, dense.Slice(cov, (lo+i)*c, (lo+i+1)*c).RawMatrix())
		}
	}
	return ctx.Err()
}

// JointTo writes the mean, T×C, and the covariance of all outputs, T·C×T·C.
func (l *latent) JointTo(ctx context.Context, mean, cov *mat.Dense, x *linearize.Batch) error {
	t, c := l.checkInputs(x), x.Outputs()
	if t == 0 {
		return ctx.Err()
	}
	l.meanTo(mean, x)
	if cov == nil {
		return ctx.Err()
	}
	dense.SizeTo(cov, t*c, t*c)
	v, err := l.half(ctx, x)
	if err != nil {
		return err
	}
	return dense.GemmContext(ctx, blas.NoTrans, blas.Trans, 1, v, v, 0, cov.RawMatrix())
}

// half returns J U⁻¹, T·C×P.
func (l *latent) half(ctx context.Context, x *linearize.Batch) (blas64.General, error) {
	var j mat.Dense
	x.JacobianTo(&j)
	v := j.RawMatrix()
	return v, dense.TrsmContext(ctx, blas.Right, blas.NoTrans, 1, l.q.u, v)
}

func (l *latent) meanTo(mean *mat.Dense, x *linearize.Batch) {
	if mean == nil {
		return
	}
	t, c := x.F.Dims()
	dense.SizeTo(mean, t, c)
	f := make([]float64, t*c)
	x.MulVecTo(f, l.shift)
	mean.Add(x.F, mat.NewDense(t, c, f))
}

func (l *latent) checkInputs(x *linearize.Batch) int {
	if x.Len() > 0 && x.P != len(l.q.mean) {
		panic("variational: inputs do not fit the parameters")
	}
	return x.Len()
}

// checkParameters returns a *gp.MemoryError where matrices of P×P do not fit.
func checkParameters(p, matrices int, limit int64) error {
	return gp.CheckMemory("a Gaussian over the parameters", gp.Parameters, p, limit, func(p int) int64 {
		return memory.Mul(int64(8*matrices), memory.Mul(int64(p), int64(p)))
	})
}
