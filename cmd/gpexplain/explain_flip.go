package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/funcgp/funcgp/cmd/gpexplain/internal/console"
	"github.com/funcgp/funcgp/cmd/gpexplain/internal/inference"
	"github.com/funcgp/funcgp/cmd/gpexplain/internal/problem"
	"github.com/funcgp/funcgp/explain/counterfactual"
	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/linearize"
)

// checkSearch refuses what does not go with --smallest-flip, and its bounds without it.
func (s *changeFlags) checkSearch(c *cobra.Command) error {
	for _, flag := range []struct {
		name  string
		value int
	}{{"flip-most", s.most}, {"flip-tries", s.tries}} {
		switch {
		case !c.Flags().Changed(flag.name):
		case !s.smallest:
			return console.Usagef("--%s is for --smallest-flip", flag.name)
		case flag.value < 1:
			return console.Usagef("--%s %d must be at least 1", flag.name, flag.value)
		}
	}
	for _, name := range []string{"without", "flip"} {
		if s.smallest && c.Flags().Changed(name) {
			return console.Usagef("--smallest-flip and --%s exclude each other; ask one after the other", name)
		}
	}
	return nil
}

// findSearch is find of --smallest-flip.
func (s *changeFlags) findSearch(p *problem.Problem) (*changedData, error) {
	if p.Task.Classes == nil {
		return nil, fmt.Errorf("--smallest-flip looks for another class, but %s has the %s likelihood, which has none; use --without", p.Model.Name, p.Task.Likelihood.Name())
	}
	if n := p.Examples.Train.Len(); s.most >= n {
		return nil, fmt.Errorf("--flip-most %d: there are %d training rows, of which some must be left; give at most %d", s.most, n, n-1)
	}
	return &changedData{flag: s.flag(), search: &counterfactual.FlipOptions{Most: s.most, Tries: s.tries}}, nil
}

// tellSmallest looks for the rows without which the class of a row is another, and adds
// to its report what would be predicted then.
func (to *changedData) tellSmallest(ctx context.Context, c *console.Console, p *problem.Problem, q *inference.Posterior, batch *linearize.Batch, r *report.Report) error {
	flip, err := to.model.SmallestFlip(ctx, batch, to.search)
	c.ClearBar()
	if none := (*counterfactual.NoFlipError)(nil); errors.As(err, &none) {
		r.SmallestFlip = &report.SmallestFlip{Changed: report.Changed{Rows: []int{}, Class: report.Undefined()}, Tried: none.Tried,
			Left: none.Left, Margin: []report.Float{report.Float(none.Before), report.Float(none.After)}}
		return nil
	}
	if err != nil {
		return err
	}
	without, err := to.model.Fit(ctx, counterfactual.Without(flip.Rows...))
	c.ClearBar()
	if err != nil {
		return err
	}
	c.Warn(without.Warnings()...)
	says := report.Changed{Rows: make([]int, len(flip.Rows))}
	for i, at := range flip.Rows {
		says.Rows[i] = p.Examples.Train.Rows[at]
	}
	slices.Sort(says.Rows)
	changed, err := told(ctx, p, q, without, batch, says)
	if err != nil {
		return err
	}
	r.SmallestFlip = &report.SmallestFlip{Changed: *changed, Found: true, Confirmed: flip.Confirmed, Tried: flip.Tried, Left: len(flip.Rows)}
	return nil
}
