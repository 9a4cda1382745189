package explain

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize"
)

// AddInfluence fills in Term.Influence of the terms that list, the explanations of one row x, holds. half is a refit
// of the same training examples under the same likelihood at twice the prior precision, which is the mode at which
// each example has half its weight (E23). AddInfluence computes the joint covariance of the row and the listed
// examples.
func AddInfluence(ctx context.Context, half gp.Dual, x *linearize.Batch, list []Explanation) error {
	var rows []int
	lists := func(one *Explanation) [][]Term { return [][]Term{one.Terms, one.For, one.Against, one.Similar} }
	for k := range list {
		for _, terms := range lists(&list[k]) {
			for _, t := range terms {
				rows = append(rows, t.Index)
			}
		}
	}
	slices.Sort(rows)
	if rows = slices.Compact(rows); len(rows) == 0 {
		return nil
	}
	if rows[len(rows)-1] >= half.Data().Len() {
		return errors.New("explain: the posterior at half weights is of other examples; refit those of the posterior at twice its prior precision")
	}
	b, err := linearize.Gather(ctx, half.Data(), rows)
	if err != nil {
		return fmt.Errorf("explain: training example %d and others: %w", rows[0], err)
	}
	var joint, h, q mat.Dense
	if err := half.JointTo(ctx, nil, &joint, linearize.Concat(x, b)); err != nil {
		return fmt.Errorf("explain: joint covariance at half weights: %w", err)
	}
	if err := half.InfluenceTo(ctx, &h, &q, rows, b); err != nil {
		return fmt.Errorf("explain: influence of training example %d and others at half weights: %w", rows[0], err)
	}
	_, c := q.Dims()
	moves := mat.NewDense(c, len(rows), nil) // column j is the change of the outputs of x by example rows[j]
	for j, i := range rows {
		// 2C(x*,x_i)(I + Λ_ih_i)⁻¹(I − Λ_ih_i)⁻¹r_i at twice the precision
		var leverage mat.Dense
		leverage.Mul(half.Sites().Lambda.Slice(i*c, (i+1)*c, 0, c), dense.Slice(&h, j*c, (j+1)*c))
		for k := range c {
			leverage.Set(k, k, leverage.At(k, k)+1)
		}
		var step, move mat.VecDense
		// A condition warning still carries the solution.
		if err := step.SolveVec(&leverage, q.RowView(j)); err != nil && !errors.As(err, new(mat.Condition)) {
			return err
		}
		move.MulVec(joint.Slice(0, c, (1+j)*c, (2+j)*c), &step)
		for k := range c {
			moves.Set(k, j, 2*move.AtVec(k))
		}
	}
	for k := range list {
		for _, terms := range lists(&list[k]) {
			for t := range terms {
				j, _ := slices.BinarySearch(rows, terms[t].Index)
				influence := list[k].Target.Of(mat.Col(nil, j, moves))
				terms[t].Influence = &influence
			}
		}
	}
	return nil
}
