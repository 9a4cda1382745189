package funcgp

import (
	"context"
	"fmt"

	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/job"
)

// Importances are the training rows that hold the function in place.
type Importances = result.ImportanceReport

// Importances lists the top training rows with the largest dual vectors |α_i| of the refit, and the |α_i| of
// all rows. Without the listed rows the function would be another, whatever the row asked about. A top of 0
// means 20, and a negative top is an error. The Record of the answer is nil: see Posterior.Record.
func (p *Posterior) Importances(ctx context.Context, top int) (*Importances, error) {
	end, err := p.functions(ctx, "Importances")
	if err != nil {
		return nil, err
	}
	defer end()
	if top < 0 {
		return nil, fmt.Errorf("funcgp: %d rows are asked of Importances; give how many to list, or 0 for %d", top, mostListed)
	}
	if top == 0 {
		top = mostListed
	}
	c := job.FromContext(ctx)
	r := p.names.Importances(explain.Importances(p.post.Dual), top)
	r.Fit = p.reportOf(c, p.post)
	err = c.EndPart(ctx, "predict")
	r.Timings = c.TimingsSoFar()
	return r, named(err)
}
