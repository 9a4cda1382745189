package explain

import (
	"context"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/linearize"
)

// combines tells whether the terms are computed from the two sums b_iᵀf and α_iᵀf
// of each example, which need the Jacobians of these sums only and not of all C
// outputs. Options.Similar and All need the covariance with every output of every
// example and so rule this out.
func (e *Explainer) combines(q gp.Cross) (gp.CombinedCross, bool) {
	c, ok := q.(gp.CombinedCross)
	return c, ok && e.c > 2 && !e.options.All && e.options.Similar == 0
}

// listed maps the index of a training example to the places where it is listed.
type listed map[int][]listing

// A listing is a candidate that the tally w of test row t lists.
type listing struct {
	t int
	w *tally
	c *candidate
}

// complete computes what the listed examples still lack: their posterior covariances
// C(x_i,x_i) and, where the terms were computed from the sums b_iᵀf and α_iᵀf alone, their
// covariances C(x*,x_i) with the test rows.
func (e *Explainer) complete(ctx context.Context, cross gp.Cross, work [][]tally) error {
	// Find the listed examples of all tallies.
	l := listed{}
	for t := range work {
		for k := range work[t] {
			w := &work[t][k]
			for _, kept := range []*top{&w.top, &w.plus, &w.minus, &w.similar} {
				// Add the candidates that one list of tally w keeps.
				for i := range kept.heap {
					c := &kept.heap[i]
					l[c.index] = append(l[c.index], listing{t, w, c})
				}
			}
		}
	}
	list, need := l, make([]bool, e.n)
	for i := range list {
		need[i] = true
	}
	if err := e.knowSpread(ctx, need); err != nil {
		return err
	}
	q, sums := e.combines(cross)
	if !sums {
		return e.know(ctx, need)
	}
	return e.visit(ctx, need, func(rows []int, b *linearize.Batch) error {
		err := e.locked(ctx, func() error {
			if slices.ContainsFunc(rows, func(i int) bool { return e.known == nil || !e.known[i] }) {
				return e.learn(ctx, rows, b)
			}
			return nil
		})
		if err != nil {
			return err
		}
		var post mat.Dense
		if err := q.CombinedTo(ctx, &post, b, gp.PosteriorTerms); err != nil {
			return fmt.Errorf("explain: posterior covariance with training example %d and others: %w", rows[0], err)
		}
		for j, i := range rows {
			for _, p := range list[i] {
				p.c.cross = make([]float64, e.c)
				p.w.target.rowTo(p.c.cross, func(c int) []float64 { return post.RawRowView(p.t*e.c + c)[j*e.c : (j+1)*e.c] })
			}
		}
		return nil
	})
}
