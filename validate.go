package funcgp

import (
	"context"
	"fmt"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/internal/job"
)

// A Validation compares weight space with function space.
type Validation = result.Validation

// Validate computes the posterior at the trained parameters and after a refit twice, over the parameters and over the
// training outputs, and compares them on the test rows of the data; it compares means with their sums over training rows,
// and leave-one-out in closed form with refits. A method that is not exact is compared with its own sums, and parameters
// with function space. Differences may be up to the tolerance relative to the largest entry, 0 for 1e-8; ones above it
// are no error. Without test rows it is an error.
func (p *Posterior) Validate(ctx context.Context, tolerance float64) (*Validation, error) {
	end, err := p.functions(ctx, "Validate")
	if err != nil {
		return nil, err
	}
	defer end()
	if tolerance == 0 {
		tolerance = weightspace.DefaultTolerance
	}
	if !(tolerance > 0 && tolerance < 1) {
		return nil, fmt.Errorf("funcgp: the tolerance %v must be between 0 and 1", tolerance)
	}
	c := job.FromContext(ctx)
	q, err := p.post.AtTheta(ctx, c, p.problem)
	if err != nil {
		return nil, named(err)
	}
	v, err := q.Validate(ctx, c, p.problem, tolerance)
	if err != nil {
		return nil, named(err)
	}
	v.Of = p.reportOf(c, q)
	if v.Warnings, v.Preflight = v.Of.Warnings, v.Of.Preflight; q.How.Name != "exact" {
		v.Fit = &v.Of
	}
	return v, nil
}
