package sites

import (
	"context"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// A Cross is the gp.Cross of inputs X whose posterior Jacobian J(x) − K_*n R B⁻¹ Rᵀ J is known. The kernel κ
// between it and the Jacobian of another input is the posterior covariance of both inputs, so a tile takes as long
// as a tile of the kernel.
type Cross struct {
	Kernel    ntk.Kernel
	Set       *gp.TrainingSet
	X         *linearize.Batch // T inputs with C outputs; none is valid
	Posterior *linearize.Batch // posterior Jacobian, T·C examples with one output each
}

var _ gp.CombinedCross = (*Cross)(nil)

// TileTo implements gp.Cross.
func (q *Cross) TileTo(ctx context.Context, dst *mat.Dense, first int, train *linearize.Batch, t gp.Terms) error {
	q.Set.CheckTile(first, train)
	return q.CombinedTo(ctx, dst, train, t)
}

// CombinedTo implements gp.CombinedCross.
func (q *Cross) CombinedTo(ctx context.Context, dst *mat.Dense, train *linearize.Batch, t gp.Terms) error {
	if q.X.Len() == 0 || train.Len() == 0 {
		dense.SizeTo(dst, 0, 0)
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	from := q.X
	switch t {
	case gp.RawTerms:
	case gp.PosteriorTerms:
		// C_*n = K_*n − K_*n R B⁻¹ Rᵀ K_nn (E14)
		from = q.Posterior
	default:
		panic("sites: unknown terms")
	}
	dense.SizeTo(dst, q.X.Len()*q.X.Outputs(), train.Len()*train.Outputs())
	if err := ntk.BlockContextTo(ctx, q.Kernel, dst, from, train); err != nil {
		return err
	}
	return NotFiniteRows("cross-kernel", dst, 0, train.Outputs())
}
