package gp

import (
	"context"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/jacobian"
	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/linearize"
)

// halfTo writes H = K_*n R U⁻¹ with B = UᵀU, such that the posterior covariance is κ(x,x') − H(x)H(x')ᵀ.
func (e *rowSolver) halfTo(ctx context.Context, dst *mat.Dense, x *linearize.Batch) error {
	if x.P != e.x.P {
		panic("gp: inputs do not fit the training examples")
	}
	rows := x.Len() * x.Outputs()
	dense.SizeTo(dst, rows, e.g.n)
	if rows == 0 {
		return ctx.Err()
	}
	if err := blockTo(ctx, e.k, dst, x, e.x); err != nil {
		return err
	}
	if err := e.f.half(ctx, dst.RawMatrix()); err != nil {
		return stopped("predicting", err)
	}
	return nil
}

// gainTo writes G = K_*n R B⁻¹ Rᵀ, and refines it for a function move at the training outputs, n numbers or nil; see
// Thinned.GainTo.
func (e *rowSolver) gainTo(ctx context.Context, dst *mat.Dense, x *linearize.Batch, move []float64) error {
	n := e.g.n
	if x.P != e.x.P || move != nil && len(move) != n {
		panic("gp: inputs do not fit the training examples")
	}
	rows := x.Len() * x.Outputs()
	dense.SizeTo(dst, rows, n)
	if rows == 0 {
		return ctx.Err()
	}
	if move == nil {
		if err := e.halfTo(ctx, dst, x); err != nil {
			return err
		}
		return e.f.transHalf(ctx, dst.RawMatrix())
	}
	raw := dense.New(rows, n)
	if err := blockTo(ctx, e.k, dense.View(raw), x, e.x); err != nil {
		return err
	}
	// Refinement compares C_*n b with K_*n α for α = Λ move and b = (I + ΛK) α.
	to := *e
	to.closed = closes * floats.Norm(move, math.Inf(1))
	to.alpha, to.b = append([]float64(nil), move...), make([]float64, n)
	to.lambda.mulRow(to.alpha, 0)
	to.g.mulVecTo(to.b, to.alpha)
	to.lambda.mulRow(to.b, 0)
	floats.Add(to.b, to.alpha)
	if _, err := to.posteriorTo(ctx, dst.RawMatrix(), raw); err != nil {
		return err
	}
	// K_*n R B⁻¹ Rᵀ = C_*n Λ
	return to.lambda.mul(ctx, dst.RawMatrix())
}

// Jacobian implements Solver.
func (e *rowSolver) Jacobian(ctx context.Context, x *linearize.Batch) (*linearize.Batch, error) {
	return e.jacobian(ctx, x, nil)
}

// weights returns −Gᵀ with the gain G, refined for move: its columns weight the Jacobians of the training rows in the
// posterior Jacobian J(x) − G J.
func (e *rowSolver) weights(ctx context.Context, x *linearize.Batch, move []float64) (*mat.Dense, error) {
	n := e.g.n
	need := func(examples int) int64 {
		return memory.Mul(memory.Mul(int64(examples), int64(x.Outputs())), memory.Add(memory.Mul(8, int64(x.P)), memory.Mul(40, int64(n))))
	}
	if err := CheckMemory("a cross-kernel", TestExamples, x.Len(), e.o.Memory, need); err != nil {
		return nil, err
	}
	var gain, weights mat.Dense
	if err := e.gainTo(ctx, &gain, x, move); err != nil {
		return nil, err
	}
	weights.Scale(-1, gain.T())
	return &weights, nil
}

// jacobian returns the posterior Jacobian, with the gain refined for move.
func (e *rowSolver) jacobian(ctx context.Context, x *linearize.Batch, move []float64) (*linearize.Batch, error) {
	weights, err := e.weights(ctx, x, move)
	if err != nil {
		return nil, err
	}
	posterior := jacobian.Sum{}
	posterior.Copy(x)
	if err := posterior.Add(ctx, e.x, weights.RawMatrix()); err != nil {
		return nil, stopped("summing the Jacobians of training rows", err)
	}
	return posterior.Batch, nil
}
