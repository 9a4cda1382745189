package funcgp

import (
	"context"

	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
)

// WithoutRows fits the posterior again without training rows, which have these numbers in the file of the data, by the
// same method and at the same prior, and calibrates it as this one is. Its mean is the network's output plus what the
// refit changes by. The posterior must be exact, kept or over parameters. The new one is closed by itself, in any order.
func (p *Posterior) WithoutRows(ctx context.Context, rows []int) (*Posterior, error) {
	return p.again(ctx, "a fit without some training rows", func(*job.Job) (*problem, error) {
		return p.problem.WithoutRows("the list of rows to leave out", rows)
	})
}

// Append fits the posterior again, as WithoutRows does, with the training rows of more data added. The data
// must have the same columns or picture shape. All of their rows of the posterior's classes are added or, where
// index is not "", the rows that this file lists, one number a line. Rows of the data that the posterior
// already has keep their numbers, and a row that is a training row already is an error; other rows get the
// numbers after the last one. When a posterior that was fitted to several files is saved, its file holds the
// training inputs.
func (p *Posterior) Append(ctx context.Context, source, index string) (*Posterior, error) {
	return p.again(ctx, "a fit with more training rows", func(c *job.Job) (*problem, error) {
		return p.problem.WithRows(ctx, c, source, index)
	})
}

// again fits the posterior of the problem that change derives from the present one.
func (p *Posterior) again(ctx context.Context, what option.Text, change func(c *job.Job) (*problem, error)) (_ *Posterior, err error) {
	end, err := p.functions(ctx, "another fit")
	if err != nil {
		return nil, err
	}
	defer end()
	c := p.job.Next()
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	changed, err := change(c)
	if err != nil {
		return nil, named(err)
	}
	post, err := p.post.Again(ctx, c, changed, what)
	if err != nil {
		return nil, named(err)
	}
	q := answering(c, post)
	q.held = p.held
	return q, nil
}

// Distance returns an upper bound on how far the mean is from the mean of a converged fit, in prior standard
// deviations of any function (E19). The posterior must be exact or kept. For a likelihood that is not concave
// the number is not a bound.
func (p *Posterior) Distance(ctx context.Context) (float64, error) {
	end, err := p.functions(ctx, "Distance")
	if err != nil {
		return 0, err
	}
	defer end()
	m, err := counterfactualModel(ctx, job.FromContext(ctx), p.problem, p.post, "the distance from a fit that has converged")
	if err != nil {
		return 0, named(err)
	}
	return m.Distance(), nil
}
