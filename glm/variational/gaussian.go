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
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
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

// NewGaussian returns the Gaussian with this mean and this precision, which are copied. For
// independent parameters the precision is a *mat.DiagDense. A mean that is not finite is an error
// that names the parameter, and a precision that is not positive definite is a *gp.NotPDError.
func NewGaussian(mean []float64, precision mat.Symmetric) (*Gaussian, error) {
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

// NewPriorGaussian returns the Gaussian with this mean and the variances of a prior, from which
// natural gradients start [thesis ch. 4]. A variance that is not positive is a *gp.NotPDError.
func NewPriorGaussian(mean []float64, prior ntk.Prior) (*Gaussian, error) {
	variance := make([]float64, len(mean))
	prior.VarianceTo(variance)
	for i, v := range variance {
		variance[i] = 1 / v
	}
	return NewGaussian(mean, mat.NewDiagDense(len(mean), variance))
}

func newSymmetric(p int) blas64.Symmetric {
	return blas64.Symmetric{Uplo: blas.Upper, N: p, Stride: p, Data: make([]float64, p*p)}
}

// factor computes U and the determinant.
func (q *Gaussian) factor(ctx context.Context) error {
	if i := dense.NotFinite(q.mean); i >= 0 {
		return fmt.Errorf("variational: the mean of parameter %d is %v", i, q.mean[i])
	}
	p := len(q.mean)
	u := newSymmetric(p)
	copy(u.Data, q.precision.Data)
	var ok bool
	var err error
	if q.u, ok, err = dense.PotrfContext(ctx, u); err != nil {
		return err
	}
	q.logDet = dense.LogDet(q.u)
	if !ok || math.IsNaN(q.logDet) || math.IsInf(q.logDet, 0) {
		return &gp.NotPDError{What: "the precision of the parameters", N: p, Reason: "a variance is not positive and finite, or the inputs are too large"}
	}
	return nil
}

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
// theta = Center() the mean is f(x;μ).
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
	t, c := x.Len(), x.Outputs()
	if err := l.meanTo(ctx, mean, x); err != nil || t == 0 || cov == nil {
		return err
	}
	dense.SizeTo(cov, t*c, c)
	for lo, step := 0, linearize.Tile(c); lo < t; lo += step {
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
	t, c := x.Len(), x.Outputs()
	if err := l.meanTo(ctx, mean, x); err != nil || t == 0 || cov == nil {
		return err
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

// meanTo writes f(x;θ) + J(μ − θ), where mean is not nil.
func (l *latent) meanTo(ctx context.Context, mean *mat.Dense, x *linearize.Batch) error {
	if x.Len() > 0 && x.P != len(l.q.mean) {
		panic("variational: inputs do not fit the parameters")
	}
	if t, c := x.F.Dims(); t > 0 && mean != nil {
		dense.SizeTo(mean, t, c)
		f := make([]float64, t*c)
		x.MulVecTo(f, l.shift)
		mean.Add(x.F, mat.NewDense(t, c, f))
	}
	return ctx.Err()
}
