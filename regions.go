package funcgp

import (
	"context"
	"fmt"
	"slices"

	"github.com/funcgp/funcgp/internal/inference"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/internal/problem"
)

// A Region is where the target of a row lies with the probability that was asked for.
type Region struct {
	// Interval holds the two ends of an interval in the units of the target, nil for classes. An end is infinite
	// where too few training rows are known without themselves, and NaN where no value conforms.
	Interval []float64
	// Set holds the classes in the order of Posterior.Classes, nil for a regression. It may be empty.
	Set []string
}

// Regions returns an interval or a set of classes for each of the rows, which holds its target with a
// probability of coverage, between 0 and 1. They come from predictions of each training row without itself, by
// the jackknife+ [Barber, Candès, Ramdas, Tibshirani, Annals of Statistics 49, 2021]: where training rows and new
// ones are exchangeable, the probability is at least 1 − 2(1 − coverage), and usually close to coverage; with
// Calibrate heldout at least coverage. The trained parameters have seen all training rows, so that a network
// that fits them too closely gets regions that are too narrow.
//
// Each call leaves out all training rows again: ask for many rows at once. It is an error to ask for more
// coverage than so few training rows can give.
func (p *Posterior) Regions(ctx context.Context, rows *Rows, coverage float64) ([]Region, error) {
	end, err := p.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	if err := p.owns(rows); err != nil {
		return nil, err
	}
	if !(coverage > 0 && coverage < 1) {
		return nil, fmt.Errorf("funcgp: the coverage %v must be between 0 and 1", coverage)
	}
	asks := inference.CoverageFlags{Share: &coverage}
	if err := asks.Suits(p.problem, p.problem.Examples.Train.Len(), "training rows"); err != nil {
		return nil, named(err)
	}
	own := job.New(nil)
	defer own.Close()
	scored, err := asks.Prepare(ctx, own, p.problem, p.post)
	if err != nil {
		return nil, named(err)
	}
	out := make([]Region, 0, rows.Len())
	n, atOnce := rows.Len(), p.post.RowsAtOnce(p.problem)
	for i := range par.Tiles(n, atOnce) {
		lo, hi := par.Bounds(i, n, atOnce)
		b, err := p.post.Rows(ctx, p.problem, rows.asked.Subset, lo, hi)
		if err != nil {
			return nil, named(problem.NamesOf(rows.asked.Subset, lo, hi).ExplainError(err))
		}
		found, err := scored.Regions(ctx, b, nil)
		if err != nil {
			return nil, named(problem.NamesOf(rows.asked.Subset, lo, hi).ExplainError(err))
		}
		for _, f := range found {
			var r Region
			for _, v := range f.Interval {
				r.Interval = append(r.Interval, float64(v))
			}
			if f.Set != nil {
				r.Set = []string{}
			}
			for _, label := range f.Set {
				r.Set = append(r.Set, p.problem.Task.ClassNames()[slices.Index(p.problem.Task.Classes, int(label))])
			}
			out = append(out, r)
		}
	}
	return out, nil
}
