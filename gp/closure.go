package gp

import (
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/newton"
)

// closureRows is the number of training outputs for which warnClosure computes C
// with refinement, as Cross does.
const closureRows = 4

// smallOutput is the relative size below which an output counts as 0. It is relative to the output's prior
// standard deviation or, if that is smaller, to 1/√Λ, the move that a likelihood notices.
const smallOutput = 1e-6

// warnClosure warns where Σ C(x_i, x_j) b_j over j differs from (K α)_i, which it
// equals in exact arithmetic (E14). It first compares all training outputs
// without refinement, and then the worst few with it.
func (e *rowSolver) warnClosure(ctx context.Context) error {
	defer func() { e.plain = nil }()
	scale, noticed := 0.0, 1/math.Sqrt(slices.Max(e.lambda.blocks))
	gaps, order := make([]float64, e.g.n), make([]int, e.g.n)
	for i, v := range e.kalpha {
		scale = math.Max(scale, math.Abs(e.prior[i]+v))
		gaps[i] = math.Abs(e.plain[i] - v)
	}
	if floats.Max(gaps) <= newton.SmallOpen*scale {
		return nil
	}
	floats.Argsort(gaps, order)
	rows := order[max(0, len(order)-closureRows):]
	slices.Sort(rows)
	raw, post := dense.New(len(rows), e.g.n), dense.New(len(rows), e.g.n)
	for t, i := range rows {
		e.g.rowTo(dense.Row(raw, t), i)
		// Outputs that are 0 to rounding, as those of a network that has not learnt
		// anything, are compared with what they could have been.
		scale = math.Max(scale, smallOutput*math.Min(noticed, math.Sqrt(dense.Row(raw, t)[i])))
	}
	gap, err := e.posteriorTo(ctx, post, raw)
	if err != nil {
		return err
	}
	for t, i := range rows {
		gap = math.Max(gap, math.Abs(floats.Dot(dense.Row(raw, t), e.alpha)-e.kalpha[i])) // the rounding error of the sum Σ κ α
	}
	e.warnings = append(e.warnings, newton.OpenWarnings(gap/scale)...)
	return nil
}
