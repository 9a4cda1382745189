package gp

import (
	"context"
	"reflect"
	"runtime"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/internal/vector"
	"github.com/funcgp/funcgp/linearize"
)

// PredictTo writes the dual mean m + K_*n α of the T examples of x, T×C, and the
// covariance of each example's outputs, T·C×C (E6). The mean alone needs no
// solve. Test examples are taken in tiles, so that the scratch memory stays below
// 64 MiB, or is one example's cross-kernel where that is larger.
//
// A variance that rounding made negative by less than 1e-12 of the prior
// variance is zero; a more negative one is a *NegativeVarianceError.
func (e *rowSolver) PredictTo(ctx context.Context, mean, cov *mat.Dense, x *linearize.Batch) error {
	return e.predictBesideTo(ctx, mean, cov, x, nil, nil)
}

// PredictBesideTo does what PredictTo does, and also writes to besideCov the covariances of another posterior,
// beside, T·C×C. besideCov must not be nil unless beside is. If both posteriors have the same training examples
// and kernel, as after Condition, it computes one cross-kernel for both, with twice the scratch memory. The
// errors are those of PredictTo of either posterior.
func (e *Exact) PredictBesideTo(ctx context.Context, mean, cov *mat.Dense, x *linearize.Batch, beside *Exact, besideCov *mat.Dense) error {
	if beside != nil && !e.s.shares(beside.s) {
		if err := beside.PredictTo(ctx, nil, besideCov, x); err != nil {
			return err
		}
		beside = nil // done
	}
	if beside == nil {
		return e.PredictTo(ctx, mean, cov, x)
	}
	t, c := e.mean.Set.Check(x)
	dense.SizeTo(mean, t, c)
	if e.solverMean() {
		return e.s.predictBesideTo(ctx, mean, cov, x, beside.s, besideCov)
	}
	if mean != nil && t > 0 {
		mean.Copy(x.F)
	}
	return e.s.predictBesideTo(ctx, nil, cov, x, beside.s, besideCov)
}

func (e *rowSolver) predictBesideTo(ctx context.Context, mean, cov *mat.Dense, x *linearize.Batch, beside *rowSolver, besideCov *mat.Dense) error {
	t, c := x.Len(), e.predicted()
	if err := ctx.Err(); err != nil {
		return stopped("predicting", err)
	}
	dense.SizeTo(mean, t, c)
	dense.SizeTo(cov, t*c, c)
	dense.SizeTo(besideCov, t*c, c)
	if t == 0 {
		return nil
	}
	step := e.tileOf(t)
	size := min(step, t) * c * e.g.n
	scratch, second := make([]float64, size), []float64(nil)
	if beside != nil {
		second = make([]float64, size)
	}
	predict := func(mean, cov, besideCov *mat.Dense, x *linearize.Batch) error {
		if err := ctx.Err(); err != nil {
			return stopped("predicting", err)
		}
		if err := checkFinite("network output", x.F); err != nil {
			return err
		}
		v := blas64.General{Rows: x.Len() * c, Cols: e.g.n, Stride: e.g.n, Data: scratch}
		if beside != nil || cov != nil || mean != nil {
			if err := blockTo(ctx, e.k, dense.View(v), x, e.x); err != nil {
				return err
			}
		}
		if beside != nil {
			w := v
			w.Data = second
			dense.Copy(w, v)
			if err := beside.covarianceTo(ctx, besideCov, x, w); err != nil {
				return err
			}
		}
		if mean != nil {
			if err := e.meanTo(mean, x, v); err != nil {
				return err
			}
		}
		if cov == nil {
			return nil
		}
		return e.covarianceTo(ctx, cov, x, v)
	}
	for lo := 0; lo < t; lo += step {
		hi := min(lo+step, t)
		if err := predict(dense.Slice(mean, lo, hi), dense.Slice(cov, lo*c, hi*c), dense.Slice(besideCov, lo*c, hi*c), x.Slice(lo, hi)); err != nil {
			return shifted(err, lo)
		}
	}
	return nil
}

// shares tells whether e and b have one cross-kernel.
func (e *rowSolver) shares(b *rowSolver) bool {
	return e.x == b.x && e.g.n == b.g.n && e.ofKept == b.ofKept && reflect.ValueOf(e.k).Comparable() && e.k == b.k
}

// tileOf returns how many of t test examples are taken at once.
func (e *rowSolver) tileOf(t int) int {
	return max(1, min(t, e.tile/8/e.predicted()/e.g.n))
}

// covarianceTo writes the covariance of each example of x, whose cross-kernel is v. It overwrites v.
func (e *rowSolver) covarianceTo(ctx context.Context, cov *mat.Dense, x *linearize.Batch, v blas64.General) error {
	if err := e.f.half(ctx, v); err != nil {
		return stopped("predicting", err)
	}
	e.k.DiagTo(cov, x)
	// Subtract V Vᵀ, V = K_*n R U⁻¹, from the prior's C×C blocks.
	c, workers := e.predicted(), runtime.GOMAXPROCS(0)
	if c >= wide {
		workers = 1 // products of blocks, each on all processors
	}
	return par.DoWorker(context.Background(), workers, x.Len(), func(_, at int) error {
		first := at * c
		if c >= wide {
			return shifted(e.subtractGram(ctx, dense.Slice(cov, first, first+c), dense.Rows(v, first, first+c)), at)
		}
		prior := make([]float64, c)
		for i := range c {
			vi := v.Data[(first+i)*v.Stride:][:v.Cols]
			prior[i] = cov.At(first+i, i)
			for j := range i + 1 {
				vj := v.Data[(first+j)*v.Stride:][:v.Cols]
				// cov(x*) = K_** − K_*n R B⁻¹ Rᵀ K_n* (E6)
				s := cov.At(first+i, j) - vector.Dot(vi, vj)
				cov.Set(first+i, j, s)
				cov.Set(first+j, i, s)
			}
		}
		return SettleVariances(dense.Slice(cov, first, first+c), prior, rounding, at, c)
	})
}

// meanTo writes the dual mean m + K_*n α; cross is K_*n.
func (e *rowSolver) meanTo(mean *mat.Dense, x *linearize.Batch, cross blas64.General) error {
	m := make([]float64, cross.Rows)
	e.k.MeanTo(m, x)
	t, c := mean.Dims()
	for i := range t {
		for j, row := 0, mean.RawRowView(i); j < c; j++ {
			at := i*c + j
			// mean(x*) = m(x*) + K_*n α (E6)
			row[j] = m[at] + floats.Dot(cross.Data[at*cross.Stride:][:cross.Cols], e.alpha)
		}
	}
	return checkFinite("predictive mean", mean)
}

// rounding is how negative rounding may make a variance, relative to the prior
// variance.
const rounding = 1e-12

// JointTo writes the mean, T×C, and the joint covariance of all outputs of
// all examples of x, T·C×T·C (E6). It takes 8·T·C·N·C bytes beside the
// result, and fails with a *MemoryError where both together take more than
// Options.Memory.
func (e *rowSolver) JointTo(ctx context.Context, mean, cov *mat.Dense, x *linearize.Batch) error {
	t, c := x.Len(), e.predicted()
	if err := ctx.Err(); err != nil {
		return stopped("predicting", err)
	}
	dense.SizeTo(mean, t, c)
	if cov == nil || t == 0 {
		dense.SizeTo(cov, t*c, t*c)
		return e.PredictTo(ctx, mean, nil, x)
	}
	need := func(t int) int64 {
		rows := memory.Mul(int64(t), int64(c))
		return memory.Mul(8, memory.Mul(rows, memory.Add(rows, int64(e.g.n))))
	}
	if err := CheckMemory("a joint covariance", TestExamples, t, e.o.Memory, need); err != nil {
		return err
	}
	dense.SizeTo(cov, t*c, t*c)
	v := dense.New(t*c, e.g.n)
	if err := blockTo(ctx, e.k, dense.View(v), x, e.x); err != nil {
		return err
	}
	if err := checkFinite("network output", x.F); err != nil {
		return err
	}
	if mean != nil {
		if err := e.meanTo(mean, x, v); err != nil {
			return err
		}
	}
	if err := e.f.half(ctx, v); err != nil {
		return stopped("predicting", err)
	}
	if err := blockTo(ctx, e.k, cov, x, x); err != nil {
		return err
	}
	return e.subtractGram(ctx, cov, v)
}

// subtractGram replaces cov by cov − V Vᵀ.
func (e *rowSolver) subtractGram(ctx context.Context, cov *mat.Dense, v blas64.General) error {
	g := cov.RawMatrix()
	prior := dense.Diagonal(g)
	// cov = K_** − K_*n R B⁻¹ Rᵀ K_n* (E6)
	if err := dense.SyrkContext(ctx, blas.NoTrans, -1, v, 1, dense.Lower(g)); err != nil {
		return stopped("predicting", err)
	}
	dense.MirrorLower(g)
	return SettleVariances(cov, prior, rounding, 0, e.predicted())
}

// set identifies the training examples.
func (e *rowSolver) set() *TrainingSet {
	return &TrainingSet{Examples: e.x.Len(), Outputs: e.predicted(), Parameters: e.x.P, Model: e.x.Model, inputs: e.x.X}
}

// shifted adds rows, the number of the first row of a tile, to the number of the row that err names.
func shifted(err error, rows int) error {
	switch err := err.(type) {
	case *NotFiniteError:
		err.Row += rows
	case *NegativeVarianceError:
		err.Row += rows
	}
	return err
}
