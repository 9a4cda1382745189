package kept

import (
	"context"
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/memory"
)

const (
	// mostPreconditioning bounds the rows of the preconditioner. More rows save steps of
	// conjugate gradients, but their kernel and its factor take longer than the steps saved.
	mostPreconditioning = 5000
	// Where training outputs are few, products with their Jacobian are cheap, so that more
	// rows than this times the root of their number do not pay: with twice as many, the search
	// of three LeNet-5 on 3,000 digits took 1.3 to 1.7 times as long.
	rootPreconditioning = 10
	// A preconditioner is used again for the next Newton step where the last one took no more
	// than fewSteps steps of conjugate gradients and tr Λ has since changed by less than
	// likeBefore of it.
	fewSteps, likeBefore = 6, 0.05
)

// droppedBytes is about the memory for one row in the list of the rows that the preconditioner leaves out.
const droppedBytes = 500

// A preconditioner is (I + J̃_kᵀΛJ̃_k)⁻¹ for some rows k, with J̃ = JΣ₀^½. Half of the rows are the strongest ones, and
// half represent the others (gp.Kept.Represent). With the strongest alone, the preconditioned Hessian has eigenvalues
// between 1 and 1 + ‖M‖₂ (E16), and the search takes a tenth to a third more products. These rows are not the kept rows
// of the covariance, so the mode does not depend on Options.Strength.
type preconditioner struct {
	p     *fit
	thin  *gp.Thinned
	total float64   // tr Λ at its sites
	f     []float64 // the function at its sites; nil before the first
	most  int       // the most rows
	steps int       // steps of conjugate gradients in the present Newton step
}

// at returns the preconditioner for a Newton step at the sites s. It keeps the one of the
// step before if that took few steps of conjugate gradients and Λ has changed little.
func (c *preconditioner) at(ctx context.Context, s *gp.Sites) (func(z []float64), error) {
	total := 0.0
	rows, n := s.Lambda.Dims()
	for i := range rows {
		total += s.Lambda.At(i, i%n)
	}
	if c.thin == nil || c.steps > fewSteps || math.Abs(total-c.total) > likeBefore*c.total {
		c.total, c.f = total, dense.Flat(s.F)
		c.thin = nil // free the memory of the old one before making the next
		pays := int(rootPreconditioning * math.Sqrt(float64(rows)))
		c.most, _ = memory.Fit(min(mostPreconditioning, pays), c.p.o.Memory, c.p.need)
		if err := c.fill(ctx, s); err != nil || c.thin == nil {
			return nil, err
		}
	}
	c.steps = 0
	root := make([]float64, len(c.p.mean.Variance))
	for i, v := range c.p.mean.Variance {
		root[i] = math.Sqrt(v)
	}
	scaled, of := make([]float64, len(root)), make([]float64, c.thin.Kept().Len())
	return func(z []float64) {
		c.steps++
		// z − J̃_kᵀ R B⁻¹ Rᵀ J̃_k z
		c.thin.Rows().MulVecTo(of, floats.MulTo(scaled, root, z))
		c.thin.SolveVec(of)
		c.thin.Rows().MulTransVecTo(scaled, of)
		floats.Mul(scaled, root)
		floats.Sub(z, scaled)
	}, nil
}

// fill conditions on the strongest rows at the sites s, and on representatives of the others where these fit into
// memory.
func (c *preconditioner) fill(ctx context.Context, s *gp.Sites) error {
	o := c.p.o
	if c.most == 0 {
		return nil
	}
	own := c.most
	if n, outputs := s.F.Dims(); droppedBytes*float64(n)*float64(outputs) < float64(gp.MemoryBudget(o.Memory))/2 {
		own = (c.most + 1) / 2
	}
	k, err := gp.Keep(ctx, c.p.kernel, c.p.x, s, &gp.KeepOptions{Most: own, Progress: o.Progress})
	if err == nil && own < c.most && k.Len() == own {
		var rest *gp.Kept
		if rest, err = k.Dropped(ctx, s); err == nil {
			k = k.Represent(rest, c.most-own, 0)
		}
	}
	if err != nil {
		return err
	}
	if k.Len() > 0 {
		c.thin, err = gp.FitKept(ctx, c.p.kernel, c.p.x, s, k, c.p.exactOptions())
	}
	return err
}
