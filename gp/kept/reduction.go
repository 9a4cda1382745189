package kept

import (
	"context"

	"github.com/funcgp/funcgp/gp"
)

var _ gp.Reducible = (*Posterior)(nil)

// Reduction implements gp.Reducible, for the covariance alone.
func (p *Posterior) Reduction(ctx context.Context, terms bool) (*gp.Reduction, error) {
	return p.thin.Reduction(ctx, terms)
}
