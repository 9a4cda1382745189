package kept

import (
	"context"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/internal/sites"
	"github.com/funcgp/funcgp/linearize"
)

// Cross computes the posterior Jacobian of x, J(x) − K_*k R B⁻¹ Rᵀ J_k. The kernel κ
// between it and a training example is the posterior covariance with that example, so a
// tile takes as long as one of the kernel. The result is a gp.CombinedCross and holds
// 8·T·C·P bytes; Cross fails with a *gp.MemoryError where it and its scratch memory take
// more than Options.MaxMemory.
func (p *Posterior) Cross(ctx context.Context, x *linearize.Batch) (gp.Cross, error) {
	t, c := p.thin.TrainingSet().Check(x)
	q := &sites.Cross{Kernel: p.kernel, Set: p.thin.TrainingSet(), X: x}
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
	if q.Posterior, err = p.thin.Jacobian(ctx, x, p.move); err != nil {
		return nil, err
	}
	return q, nil
}
