package gp

import (
	"context"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize"
)

// LeaveOneOutTo implements OwnSolver. It takes the moments from the factor, so that
// they keep their digits where an example nearly fixes the function by itself. For
// all examples it takes about as long as a factorization; each direction in which a
// root of Λ_i is nearly zero takes a solve more.
func (e *rowSolver) LeaveOneOutTo(ctx context.Context, _, cov *mat.Dense, rows []int, x *linearize.Batch) error {
	n, c := x.Len(), e.outputs()
	if err := ctx.Err(); err != nil {
		return stopped("leaving out examples", err)
	}
	progress := func(done int) { e.o.Show(StageLeaveOneOut, done, n) }
	return e.eachOwn(ctx, rows, progress, func(at int, o own) error {
		own := dense.Slice(cov, at*c, (at+1)*c)
		e.priorTo(own, rows[at])
		o.withoutTo(own)
		return nil
	})
}

// leftOutTo writes mean_−i = f − cov_−i r (E17).
func leftOutTo(mean []float64, cov *mat.Dense, f, r []float64) {
	for j := range mean {
		mean[j] = f[j] - floats.Dot(cov.RawRowView(j), r)
	}
}

// withoutTo makes κ_ii in cov the covariance without the example, NaN where rounding leaves no
// digits. It overwrites the rows.
func (o own) withoutTo(cov *mat.Dense) {
	if o.t.Rows > 0 {
		if _, _, ok := o.project(); !ok {
			fillNaN(cov)
			return
		}
	}
	prior := dense.Diagonal(cov.RawMatrix())
	// cov_−i = κ_ii − V(I − Tᵀ(TTᵀ)⁻¹T)Vᵀ (E17)
	subtractOwnGram(cov, o.v)
	if SettleVariances(cov, prior, rounding, 0, len(prior)) != nil {
		fillNaN(cov)
	}
}
