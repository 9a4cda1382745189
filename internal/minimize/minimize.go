// Package minimize finds the minimum of a function of one variable that may have several minima. It evaluates a
// grid, and then refines around the best grid point by Brent's method.
package minimize

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
)

// A Func returns the objective at each of the points x, in their order. NaN and +Inf count as worse than any
// number.
type Func func(ctx context.Context, x []float64) ([]float64, error)

// Each returns a Func that calls f for one point after the other.
func Each(f func(ctx context.Context, x float64) (float64, error)) Func {
	return func(ctx context.Context, x []float64) ([]float64, error) {
		value := make([]float64, len(x))
		for i, at := range x {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			var err error
			if value[i], err = f(ctx, at); err != nil {
				return nil, err
			}
		}
		return value, nil
	}
}

// Grid returns n ≥ 2 equally spaced points from lo to hi.
func Grid(lo, hi float64, n int) []float64 {
	if n < 2 || !(lo < hi) {
		panic("minimize: a grid needs two points or more, from a smaller to a larger number")
	}
	x := make([]float64, n)
	for i := range x {
		x[i] = lo + (hi-lo)*float64(i)/float64(n-1)
	}
	x[n-1] = hi
	return x
}

// An Edge tells whether the minimum is at an end of the grid.
type Edge int

// The minimum is between the ends, at the first point, or at the last point.
const (
	Inside Edge = iota
	Lower
	Upper
)

// A Trial is a point and its value. A NaN becomes +Inf.
type Trial struct{ X, Value float64 }

// A Result is the best of the points that were evaluated.
type Result struct {
	X, Value float64
	Edge     Edge
	Flat     bool    // no finite value differs from the best by more than rounding
	Trials   []Trial // in the order of evaluation, the grid first
}

// NoMinimumError reports an objective that is finite nowhere on the grid.
type NoMinimumError struct{ Lo, Hi float64 }

func (e *NoMinimumError) Error() string {
	return fmt.Sprintf("minimize: the objective is finite nowhere on the grid from %.4g to %.4g", e.Lo, e.Hi)
}

// equal is the relative difference up to which a smaller value counts as equal.
const equal = 1e-12

// Search evaluates all points of the grid, which must ascend, in one call of f. It then refines between the
// neighbours of the best point, with one point in each call, until the minimum is known to within tol. It assumes
// one minimum between neighbouring points of the grid.
//
// Of values that are equal up to 1e-12 of their size, the one nearest to x = 0 counts as best, and of two equally
// near ones the negative one. The result is at an edge only if nothing better was found between the end of the grid
// and its neighbour. The error is an error of f or of ctx, or a *NoMinimumError.
func Search(ctx context.Context, grid []float64, tol float64, f Func) (*Result, error) {
	if len(grid) < 2 || !slices.IsSorted(grid) || !(tol > 0) {
		panic("minimize: the grid must ascend and have two points, and the tolerance be positive")
	}
	s := &search{f: f}
	if err := s.try(ctx, grid...); err != nil {
		return nil, err
	}
	at := s.best(s.trials)
	if math.IsInf(s.trials[at].Value, 1) {
		return nil, &NoMinimumError{Lo: grid[0], Hi: grid[len(grid)-1]}
	}
	// Flat where no trial is worse than the best one by more than rounding
	r := &Result{Flat: !slices.ContainsFunc(s.trials, func(t Trial) bool { return less(s.trials[at].Value, t.Value) })}
	if !r.Flat {
		lo, hi := max(at-1, 0), min(at+1, len(grid)-1)
		if err := s.brent(ctx, s.trials[lo], s.trials[at], s.trials[hi], tol); err != nil {
			return nil, err
		}
		at = s.best(s.trials)
	}
	r.X, r.Value, r.Trials = s.trials[at].X, s.trials[at].Value, s.trials
	switch at {
	case 0:
		r.Edge = Lower
	case len(grid) - 1:
		r.Edge = Upper
	}
	return r, nil
}

type search struct {
	f      Func
	trials []Trial
}

// try evaluates f at x and appends the trials.
func (s *search) try(ctx context.Context, x ...float64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	value, err := s.f(ctx, x)
	if err != nil {
		return err
	}
	if len(value) != len(x) {
		panic("minimize: the objective does not have one value per point")
	}
	for i, v := range value {
		if math.IsNaN(v) {
			v = math.Inf(1)
		}
		s.trials = append(s.trials, Trial{x[i], v})
	}
	return nil
}

// less tells whether a is smaller than b by more than rounding.
func less(a, b float64) bool {
	if math.IsInf(b, 0) || math.IsInf(a, 0) {
		return a < b
	}
	return a < b-equal*math.Abs(b)
}

// best returns the index of the best trial.
func (s *search) best(trials []Trial) int {
	order := make([]int, len(trials))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		a, b := trials[i].X, trials[j].X
		return cmp.Or(cmp.Compare(math.Abs(a), math.Abs(b)), cmp.Compare(a, b))
	})
	best := order[0]
	for _, i := range order[1:] {
		if less(trials[i].Value, trials[best].Value) {
			best = i
		}
	}
	return best
}

// golden is the share of an interval that a golden-section step cuts off.
var golden = (3 - math.Sqrt(5)) / 2

// brent refines between a and b by Brent's method (Algorithms for Minimization without Derivatives, 1973, chapter
// 5). start is the best of the three trials and may be at one of the ends.
func (s *search) brent(ctx context.Context, a, start, b Trial, tol float64) error {
	lo, hi := a.X, b.X
	// x is the best point, w the second best, and v the former w.
	x, w, v := start, a, b
	if w.Value > v.Value {
		w, v = v, w
	}
	// Without a neighbour on both sides, the first steps do not use a parabola.
	last, before := 0.0, 0.0 // steps of this round and of the previous one
	if lo < x.X && x.X < hi {
		before, last = hi-lo, hi-lo
	}
	for {
		mid := lo + (hi-lo)/2
		if math.Abs(x.X-mid) <= tol-(hi-lo)/2 || mid <= lo || mid >= hi {
			return nil
		}
		// step goes from x to the lowest point of the parabola through the three points; ok tells whether there is
		// one.
		var step float64
		r := (x.X - w.X) * (x.Value - v.Value)
		q := (x.X - v.X) * (x.Value - w.Value)
		p := (x.X-v.X)*q - (x.X-w.X)*r
		step = -p / (2 * (q - r))
		ok := !math.IsNaN(step) && !math.IsInf(step, 0)
		if ok && math.Abs(step) < math.Abs(before)/2 && x.X+step > lo && x.X+step < hi {
			before, last = last, step
			if u := x.X + step; u-lo < tol/2 || hi-u < tol/2 {
				last = math.Copysign(tol/2, mid-x.X)
			}
		} else {
			before = hi - x.X
			if x.X >= mid {
				before = lo - x.X
			}
			last = golden * before
		}
		u := x.X + last
		if math.Abs(last) < tol/2 {
			u = x.X + math.Copysign(tol/2, last)
		}
		if err := s.try(ctx, u); err != nil {
			return err
		}
		t := s.trials[len(s.trials)-1]
		if t.Value <= x.Value {
			if t.X >= x.X {
				lo = x.X
			} else {
				hi = x.X
			}
			x, w, v = t, x, w
			continue
		}
		if t.X < x.X {
			lo = t.X
		} else {
			hi = t.X
		}
		switch {
		case t.Value <= w.Value || w.X == x.X:
			w, v = t, w
		case t.Value <= v.Value || v.X == x.X || v.X == w.X:
			v = t
		}
	}
}
