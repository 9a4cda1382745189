package inference

import (
	"context"
	"errors"
	"fmt"

	"github.com/funcgp/funcgp/cmd/gpexplain/internal/console"
	"github.com/funcgp/funcgp/cmd/gpexplain/internal/problem"
	"github.com/funcgp/funcgp/explain/counterfactual"
	"github.com/funcgp/funcgp/ntk"
)

// Counterfactual returns what answers for a posterior with other training data. Where there
// is none, the error names the flag or verb that needs it.
func Counterfactual(ctx context.Context, c *console.Console, p *problem.Problem, q *Posterior, flag string) (*counterfactual.Model, error) {
	base, ok := q.Dual.(counterfactual.Base)
	if !ok {
		return nil, fmt.Errorf("%s needs a posterior of all training rows, which --method %s is not; give --method exact or kept", flag, q.How.Name)
	}
	kernel := ntk.New(q.Prior(), p.Model.Net.Theta(), nil)
	m, err := counterfactual.New(ctx, base, kernel, p.Examples.Y, p.Task.Likelihood, &counterfactual.Options{MaxMemory: p.Limits.Memory, Progress: c.Show})
	if errors.Is(err, counterfactual.ErrNotRefitted) {
		return nil, fmt.Errorf("%s: the saved posterior is that at the trained parameters, and other training data are answered for by a refit; fit it with --refit", flag)
	}
	return m, err
}
