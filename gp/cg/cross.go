package cg

import (
	"context"
	"math"

	"gonum.org/v1/gonum/blas/blas64"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/jacobian"
	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/internal/sites"
	"github.com/funcgp/funcgp/linearize"
)

// Cross computes the posterior Jacobian of x, J(x) − K_*n R B⁻¹ Rᵀ J (E14), with two
// solves for each output. The kernel κ between it and a training example is the
// posterior covariance with that example, so a tile takes as long as one of the
// kernel. The result is a gp.CombinedCross and holds 8·T·C·P bytes; Cross fails with a
// *gp.MemoryError where twice that is more than Options.MaxMemory.
func (p *Posterior) Cross(ctx context.Context, x *linearize.Batch) (gp.Cross, error) {
	t, c := p.data.set.Check(x)
	q := &sites.Cross{Kernel: p.data.k, Set: &p.data.set, X: x}
	if t == 0 {
		return q, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	need := func(t int) int64 { return memory.Mul(16, memory.Mul(memory.Mul(int64(t), int64(c)), int64(p.data.p))) }
	if err := gp.CheckMemory("a cross-kernel", gp.TestExamples, t, p.o.MaxMemory, need); err != nil {
		return nil, err
	}
	posterior := jacobian.Sum{}
	posterior.Copy(x)
	step := max(1, min(t, p.columns/c))
	s := p.predictor(step * c)
	for lo := 0; lo < t; lo += step {
		hi := min(lo+step, t)
		// Make the Jacobian of the examples of x, which stands in dst from its column first on, the
		// posterior one. The first solve gives u of (I+ΛK)u = Λk_n*. A second solve, for what u leaves of
		// this equation, makes sums over all training examples close.
		dst := &posterior
		first := lo * c
		x := x.Slice(lo, hi)
		rows := x.Len() * s.data.c
		left := dst.Part(first, first+rows)
		v, y, err := s.solveCross(ctx, x)
		if err != nil {
			return nil, err
		}
		// u = R B⁻¹ Rᵀ k_n*
		s.root.mul(y, 0, false)
		if err := s.takeOut(ctx, left, y); err != nil {
			return nil, err
		}
		// Λ(k_n* − K u) − u, k_n* − K u = C_n*
		if err := s.data.crossTo(ctx, v, left.Batch); err != nil {
			return nil, err
		}
		s.root.mul(v, 0, true)
		s.root.mul(v, 0, false)
		subtract(v, y)
		out, err := s.solveDual(ctx, v, math.Max(s.o.Tolerance, polish))
		if err != nil {
			return nil, err
		}
		s.worst.Steps = max(s.worst.Steps, out.Steps)
		if err := s.takeOut(ctx, left, v); err != nil {
			return nil, err
		}
	}
	p.note(s.worst)
	q.Posterior = posterior.Batch
	return q, nil
}

// takeOut subtracts uᵀJ from the Jacobian left.
func (s *predictor) takeOut(ctx context.Context, left *jacobian.Sum, u blas64.General) error {
	sum, err := s.data.jacobianOf(ctx, &s.sum, u)
	if err != nil {
		return err
	}
	for i, block := range sum.Blocks {
		subtract(left.Parts[i], block.(*linearize.Full).J.RawMatrix())
	}
	return nil
}
