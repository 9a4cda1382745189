package explain

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize"
)

// together fills in the Influence of the listed terms of one row x, by Options.Half (E23).
func (e *Explainer) together(ctx context.Context, x *linearize.Batch, list []Explanation) error {
	half := e.options.Half
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
	rows = slices.Compact(rows)
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
	c := e.c
	moves := mat.NewDense(c, len(rows), nil) // of each output of x
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
				terms[t].Influence = list[k].Target.Of(mat.Col(nil, j, moves))
			}
		}
	}
	return nil
}
