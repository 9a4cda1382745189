package kept

import (
	"context"
	"errors"
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/funcgp/funcgp/gp"
)

// mostPreconditioning bounds the rows of the preconditioner. More rows save steps of
// conjugate gradients, but their factor takes longer than these.
const mostPreconditioning = 8000

// A preconditioner is (I + J̃_kᵀΛJ̃_k)⁻¹ of the strongest rows, with J̃ = JΣ₀^½. That of the
// kept rows, which lies above the inverse Hessian, gives the preconditioned Hessian
// eigenvalues between 1 and 1 + ‖M‖₂ (E16).
type preconditioner struct {
	p        *Posterior
	variance []float64
	thin     *gp.Thinned
}

// at returns the preconditioner for a Newton step at the sites s.
func (c *preconditioner) at(ctx context.Context, s *gp.Sites) (func(z []float64), error) {
	if c.thin == nil {
		o := c.p.o
		k, err := gp.Keep(ctx, c.p.kernel, c.p.x, s, &gp.KeepOptions{Strength: o.Strength, PriorVariance: o.PriorVariance, Most: mostPreconditioning, Workers: o.Workers, Progress: o.Progress})
		if err != nil {
			return nil, err
		}
		c.thin, err = gp.FitKept(ctx, c.p.kernel, c.p.x, s, k, c.p.exactOptions())
		if errors.Is(err, gp.ErrNoExamples) {
			c.thin, err = nil, nil
		}
		if err != nil || c.thin == nil {
			return nil, err
		}
	}
	root := make([]float64, len(c.variance))
	for i, v := range c.variance {
		root[i] = math.Sqrt(v)
	}
	scaled, rows := make([]float64, len(root)), make([]float64, c.thin.Kept().Len())
	return func(z []float64) {
		// z − J̃_kᵀ R B⁻¹ Rᵀ J̃_k z
		c.thin.Rows().MulVecTo(rows, floats.MulTo(scaled, root, z))
		c.thin.SolveVec(rows)
		c.thin.Rows().MulTransVecTo(scaled, rows)
		floats.Mul(scaled, root)
		floats.Sub(z, scaled)
	}, nil
}
