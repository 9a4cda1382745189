package kept

import (
	"context"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/internal/sites"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// Cross computes the posterior Jacobian of x, J(x) − K_*k R B⁻¹ Rᵀ J_k. The kernel κ
// between it and a training example is the posterior covariance with that example, so a
// tile takes as long as one of the kernel. The result is a gp.CombinedCross and holds
// 8·T·C·P bytes; Cross fails with a *gp.MemoryError where it and its scratch memory take
// more than Options.MaxMemory.
func (p *Posterior) Cross(ctx context.Context, x *linearize.Batch) (gp.Cross, error) {
	t, c := p.thin.TrainingSet().Check(x)
	q := &cross{p: p, x: x, rows: t * c}
	if t == 0 {
		return q, nil
	}
	n := p.Kept().Len()
	need := func(t int) int64 {
		return memory.Mul(memory.Mul(int64(t), int64(c)), memory.Add(memory.Mul(8, int64(p.p)), memory.Mul(40, int64(n))))
	}
	if err := gp.CheckMemory("a cross-kernel", gp.TestExamples, t, p.o.MaxMemory, need); err != nil {
		return nil, err
	}
	var err error
	if q.posterior, err = p.thin.Jacobian(ctx, x, p.move); err != nil {
		return nil, err
	}
	return q, nil
}

// A cross is the gp.Cross of x.
type cross struct {
	p         *Posterior
	x         *linearize.Batch
	posterior *linearize.Batch // the posterior Jacobian, one example for each output of x
	rows      int              // T·C
}

var _ gp.CombinedCross = (*cross)(nil)

// TileTo implements gp.Cross.
func (q *cross) TileTo(ctx context.Context, dst *mat.Dense, first int, train *linearize.Batch, t gp.Terms) error {
	q.p.thin.TrainingSet().CheckTile(first, train)
	return q.CombinedTo(ctx, dst, train, t)
}

// CombinedTo implements gp.CombinedCross.
func (q *cross) CombinedTo(ctx context.Context, dst *mat.Dense, train *linearize.Batch, t gp.Terms) error {
	if q.rows == 0 || train.Len() == 0 {
		dense.SizeTo(dst, 0, 0)
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	dense.SizeTo(dst, q.rows, train.Len()*train.Outputs())
	switch t {
	case gp.Raw:
		if err := ntk.BlockContextTo(ctx, q.p.kernel, dst, q.x, train); err != nil {
			return err
		}
	case gp.Posterior:
		// C_*n = K_*n − K_*k R B⁻¹ Rᵀ K_kn (E14)
		if err := ntk.BlockContextTo(ctx, q.p.kernel, dst, q.posterior, train); err != nil {
			return err
		}
	default:
		panic("kept: unknown terms")
	}
	return sites.NotFiniteRows("cross-kernel", dst, 0, train.Outputs())
}
