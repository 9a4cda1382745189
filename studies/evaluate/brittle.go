package evaluate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
)

// Removals take away the training rows that scores rank first for a test row, and train
// networks without them: how few must go until the row gets another class, and what its
// target loses without a share of them.
type Removals struct {
	Retraining *Retraining
	Y          *mat.Dense // true targets of the rows of Retraining.Test
	Scores     *mat.Dense // T×N; rows go by falling score, equal ones in the order of the data
	// Seeds are those of the networks that are trained without the same rows, at least one.
	// Their outputs are averaged: the class is that of the largest mean output, of one
	// output its sign.
	Seeds []uint64
}

// Outputs returns for each test row t the mean outputs of the networks that are trained
// without the first sizes[t] rows of its ranking, T×C.
func (m *Removals) Outputs(ctx context.Context, sizes []int) (*mat.Dense, error) {
	if i := slices.IndexFunc(sizes, func(size int) bool { return size < 0 }); i >= 0 {
		return nil, fmt.Errorf("evaluate: removal of %d training rows; the least is 0", sizes[i])
	}
	orders, err := m.orders()
	if err != nil {
		return nil, err
	}
	return m.outputs(ctx, orders, sizes)
}

// orders returns the ranking of each test row.
func (m *Removals) orders() ([][]int, error) {
	rows, n := m.Scores.Dims()
	switch {
	case rows != dense.Count(m.Retraining.Test) || rows != dense.Count(m.Y) || n != dense.Count(m.Retraining.X):
		panic("evaluate: scores of other rows than those of the retraining")
	case len(m.Seeds) == 0:
		return nil, errors.New("evaluate: removals without a network to train; set Removals.Seeds")
	}
	orders := make([][]int, rows)
	for t := range orders {
		score := m.Scores.RawRowView(t)
		if i := slices.IndexFunc(score, math.IsNaN); i >= 0 {
			return nil, fmt.Errorf("evaluate: the score of training row %d for test row %d is not a number", i, t)
		}
		orders[t] = dense.Range(n)
		slices.SortStableFunc(orders[t], func(i, j int) int { return cmp.Compare(score[j], score[i]) })
	}
	return orders, nil
}

// outputs is Outputs for rankings that are known. Test rows of a size below 0 are passed
// over, and their outputs are 0.
func (m *Removals) outputs(ctx context.Context, orders [][]int, sizes []int) (*mat.Dense, error) {
	var runs []Run
	first := make([]int, len(orders)) // runs of each test row
	whole := -1                       // those of all rows, which are the same for all test rows
	for t, order := range orders {
		first[t] = len(runs)
		switch size := sizes[t]; {
		case size >= len(order):
			return nil, fmt.Errorf("evaluate: removal of %d of %d training rows; at least one must stay", size, len(order))
		case size == 0 && whole >= 0:
			first[t] = whole
		case size >= 0:
			run := Run{} // of all rows
			if size == 0 {
				whole = len(runs)
			} else {
				run.Rows = slices.Sorted(slices.Values(order[size:]))
			}
			for _, run.Seed = range m.Seeds {
				runs = append(runs, run)
			}
		}
	}
	outputs, err := m.Retraining.Outputs(ctx, runs)
	if err != nil {
		return nil, err
	}
	_, c := outputs[0].Dims()
	mean := mat.NewDense(len(orders), c, nil)
	for t, size := range sizes {
		if size < 0 {
			continue
		}
		for _, f := range outputs[first[t] : first[t]+len(m.Seeds)] {
			dense.Axpy(mean.RawRowView(t), 1/float64(len(m.Seeds)), f.RawRowView(t))
		}
	}
	return mean, nil
}

// Flips returns for each test row the first of the sizes, which ascend from 1, without
// which the networks give it another class than with all rows, or 0 where none does. It
// looks by bisection, as if a row that is flipped by a size were flipped by all larger
// ones.
func (m *Removals) Flips(ctx context.Context, sizes []int) ([]int, error) {
	if len(sizes) == 0 || sizes[0] < 1 || !slices.IsSorted(sizes) {
		return nil, fmt.Errorf("evaluate: sizes %v of removals; they must ascend from at least 1", sizes)
	}
	orders, err := m.orders()
	if err != nil {
		return nil, err
	}
	try := make([]int, len(orders))
	f, err := m.outputs(ctx, orders, try)
	if err != nil {
		return nil, err
	}
	before := Classes(f)
	lo, hi := make([]int, len(orders)), make([]int, len(orders)) // sizes below lo do not flip; hi does
	for t := range hi {
		hi[t] = len(sizes)
	}
	for {
		open := false
		for t := range try {
			if try[t] = -1; lo[t] < hi[t] {
				open, try[t] = true, sizes[(lo[t]+hi[t])/2]
			}
		}
		if !open {
			break
		}
		if f, err = m.outputs(ctx, orders, try); err != nil {
			return nil, err
		}
		for t, class := range Classes(f) {
			mid := (lo[t] + hi[t]) / 2
			switch {
			case lo[t] >= hi[t]:
			case class != before[t]:
				hi[t] = mid
			default:
				lo[t] = mid + 1
			}
		}
	}
	out := make([]int, len(orders))
	for t, k := range hi {
		if k < len(sizes) {
			out[t] = sizes[k]
		}
	}
	return out, nil
}

// Classes returns the class of each row of outputs: that of the largest, and of one output
// 1 where it is above 0.
func Classes(f *mat.Dense) []int {
	rows, c := f.Dims()
	out := make([]int, rows)
	for t := range out {
		row := f.RawRowView(t)
		if c > 1 {
			for k, v := range row {
				if v > row[out[t]] {
					out[t] = k
				}
			}
		} else if row[0] > 0 {
			out[t] = 1
		}
	}
	return out
}

// A Drop is what a test row loses.
type Drop struct {
	Before, After float64 // the target with all training rows, and without those that were removed
	Flipped       bool    // whether its class is another
}

// Drops removes the first size rows of each ranking.
func (m *Removals) Drops(ctx context.Context, size int, target Target) ([]Drop, error) {
	orders, err := m.orders()
	if err != nil {
		return nil, err
	}
	sizes := make([]int, len(orders))
	before, err := m.outputs(ctx, orders, sizes)
	if err != nil {
		return nil, err
	}
	if size < 1 {
		return nil, fmt.Errorf("evaluate: removal of %d training rows; the least is 1", size)
	}
	for t := range sizes {
		sizes[t] = size
	}
	after, err := m.outputs(ctx, orders, sizes)
	if err != nil {
		return nil, err
	}
	from, to := Classes(before), Classes(after)
	out := make([]Drop, len(orders))
	for t := range out {
		y := m.Y.RawRowView(t)
		out[t] = Drop{target.Value(y, before.RawRowView(t)), target.Value(y, after.RawRowView(t)), from[t] != to[t]}
	}
	return out, nil
}
