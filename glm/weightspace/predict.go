package weightspace

import (
	"context"
	"math/rand/v2"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/linearize"
)

// PredictTo writes the mean of the T examples of x, T×C, and the covariance
// J(x) H⁻¹ J(x)ᵀ of each example's outputs, T·C×C. A nil destination is skipped,
// an empty one is sized. It holds at most 64 MiB of Jacobian, or that of one
// example, at a time. A NaN or Inf is a *gp.NotFiniteError.
func (w *Posterior) PredictTo(ctx context.Context, mean, cov *mat.Dense, x *linearize.Batch) error {
	t, c := w.checkInputs(x)
	if t == 0 {
		return nil
	}
	dense.SizeTo(mean, t, c)
	dense.SizeTo(cov, t*c, c)
	step := panelExamples(len(w.theta), c)
	for lo := 0; lo < t; lo += step {
		if err := ctx.Err(); err != nil {
			return err
		}
		hi := min(lo+step, t)
		tile := x.Slice(lo, hi)
		if err := w.meanTo(dense.Slice(mean, lo, hi), tile, lo); err != nil {
			return err
		}
		if cov == nil {
			continue
		}
		v, err := w.halfPanel(ctx, tile, lo)
		if err != nil {
			return err
		}
		part := dense.Slice(cov, lo*c, hi*c)
		part.Zero()
		if err := addMarginals(ctx, w.o.Workers, part, v, c); err != nil {
			return err
		}
	}
	return nil
}

// meanTo writes f_lin(x;θ̂) or f(x;θ*), unless mean is nil. Errors number the
// examples of x from first on.
func (w *Posterior) meanTo(mean *mat.Dense, x *linearize.Batch, first int) error {
	if mean == nil {
		return nil
	}
	mean.Copy(x.F)
	if w.usesMean() {
		f := make([]float64, x.Len()*x.Outputs())
		// f_lin(x;θ̂) = F + J(θ̂ − θ*) (E1)
		w.linearTo(f, x, w.mean)
		mean.Copy(matrixOf(f, x.Outputs()))
	}
	return checkMatrix("predictive mean", mean, first)
}

// halfPanel returns V = J̃(x) U⁻¹, T·C×P: V Vᵀ is the joint covariance.
func (w *Posterior) halfPanel(ctx context.Context, x *linearize.Batch, first int) (blas64.General, error) {
	r, p := x.Len()*x.Outputs(), len(w.theta)
	v := blas64.General{Rows: r, Cols: p, Stride: p, Data: make([]float64, r*p)}
	if err := w.panel(ctx, v, x, first, nil); err != nil {
		return v, err
	}
	return v, w.h.half(ctx, w.o.Workers, v)
}

// addMarginals adds the C×C diagonal blocks of V Vᵀ to cov, T·C×C.
func addMarginals(ctx context.Context, workers int, cov *mat.Dense, v blas64.General, c int) error {
	return par.Do(ctx, workers, v.Rows/c, func(n int) error {
		addSquare(cov, n, c, dense.Rows(v, n*c, (n+1)*c))
		return nil
	})
}

// addSquare adds V Vᵀ to the C×C block n of cov, for V with C rows.
func addSquare(cov *mat.Dense, n, c int, v blas64.General) {
	for i := range c {
		for j := range i + 1 {
			// cov = J Σ₀^½ H̃⁻¹ Σ₀^½ Jᵀ
			s := cov.At(n*c+i, j) + floats.Dot(dense.Row(v, i), dense.Row(v, j))
			cov.Set(n*c+i, j, s)
			cov.Set(n*c+j, i, s)
		}
	}
}

// JointTo writes the mean, T×C, and the joint covariance of all outputs of all
// examples of x, T·C×T·C. It takes 8·T·C·P bytes besides the result, and fails
// with a *gp.MemoryError where both together exceed Options.MaxMemory.
func (w *Posterior) JointTo(ctx context.Context, mean, cov *mat.Dense, x *linearize.Batch) error {
	t, c := w.checkInputs(x)
	if t == 0 {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	dense.SizeTo(mean, t, c)
	if cov == nil {
		return w.meanTo(mean, x, 0)
	}
	if err := checkJoint(t, c, len(w.theta), w.o.MaxMemory); err != nil {
		return err
	}
	dense.SizeTo(cov, t*c, t*c)
	if err := w.meanTo(mean, x, 0); err != nil {
		return err
	}
	v, err := w.halfPanel(ctx, x, 0)
	if err != nil {
		return err
	}
	if err := dense.SyrkContext(ctx, w.o.Workers, blas.NoTrans, 1, v, 0, lower(cov)); err != nil {
		return err
	}
	mirrorLower(cov)
	return nil
}

// lower returns the lower triangle of m in the same memory.
func lower(m *mat.Dense) blas64.Symmetric {
	g := m.RawMatrix()
	return blas64.Symmetric{Uplo: blas.Lower, N: g.Rows, Stride: g.Stride, Data: g.Data}
}

// mirrorLower copies what is below the diagonal of m to above it.
func mirrorLower(m *mat.Dense) {
	g := m.RawMatrix()
	for i := range g.Rows {
		for j := range i {
			g.Data[j*g.Stride+i] = g.Data[i*g.Stride+j]
		}
	}
}

// checkJoint returns a *gp.MemoryError where a joint covariance of t examples with c
// outputs and as many rows of width columns exceed the budget.
func checkJoint(t, c, width int, maxMemory int64) error {
	need := func(t int) int64 {
		rows := memory.Mul(int64(t), int64(c))
		return memory.Mul(8, memory.Mul(rows, memory.Add(rows, int64(width))))
	}
	return gp.CheckMemory("a joint covariance", gp.TestExamples, t, maxMemory, need)
}

// SampleTo writes S draws of the parameters from N(Center(), H⁻¹) to the rows of
// dst, S×P, which must be sized. Its error is ctx.Err().
func (w *Posterior) SampleTo(ctx context.Context, dst *mat.Dense, rng *rand.Rand) error {
	s, p := dst.Dims()
	if s == 0 || p != len(w.theta) {
		panic("weightspace: destination is not S×P")
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	for i := range s {
		for j, row := 0, dst.RawRowView(i); j < p; j++ {
			row[j] = rng.NormFloat64()
		}
	}
	if err := w.h.draw(ctx, w.o.Workers, dst.RawMatrix()); err != nil {
		return err
	}
	center := w.Center()
	for i := range s {
		for j, row := 0, dst.RawRowView(i); j < p; j++ {
			// θ = center + Σ₀^½ U⁻¹ε
			row[j] = center[j] + w.root[j]*row[j]
		}
	}
	return nil
}

// checkInputs returns the numbers of examples and outputs of x. It panics where x
// does not fit the training examples.
func (w *Posterior) checkInputs(x *linearize.Batch) (t, c int) {
	if t = x.Len(); t > 0 && (x.Outputs() != w.x.Outputs() || x.P != w.x.P) {
		panic("weightspace: inputs do not fit the training examples")
	}
	checkModel(w.x.Model, x)
	return t, w.x.Outputs()
}
