package inference

import (
	"context"
	"fmt"

	"github.com/funcgp/funcgp/explain/counterfactual"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/kept"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/problem"
	"github.com/funcgp/funcgp/ntk"
)

var (
	_ counterfactual.Base = (*gp.Exact)(nil)
	_ counterfactual.Base = (*kept.Posterior)(nil)
)

// Counterfactual returns what answers for a posterior with other training data. Where there
// is none, the error names the flag or verb that needs it.
func Counterfactual(ctx context.Context, c *job.Job, p *problem.Problem, q *Posterior, flag string) (*counterfactual.Model, error) {
	if err := Changeable(flag, q.How.Name, q.Dual.Refitted()); err != nil {
		return nil, err
	}
	kernel := ntk.New(q.Prior(), p.Model.Net.Theta(), nil)
	return counterfactual.New(ctx, q.Dual.(counterfactual.Base), kernel, p.Examples.Y, p.Task.Likelihood, &counterfactual.Options{MaxMemory: p.Limits.Memory, Progress: c.Show})
}

// Changeable returns an error, which names the flag or verb, unless it is defined what a
// posterior of this method would be with other training data. refitted tells whether it is one of a
// refit, as all but those of older files are.
func Changeable(flag, method string, refitted bool) error {
	switch {
	case method != "exact" && method != "kept":
		return fmt.Errorf("%s needs a posterior of all training rows, which --method %s is not; give --method exact or kept", flag, method)
	case !refitted:
		return fmt.Errorf("%s: the saved posterior, of an older version, is that at the trained parameters, and other training data are answered for by a refit; fit it again", flag)
	}
	return nil
}
