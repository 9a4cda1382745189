package explain

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// ranks returns the rank of every entry, from 1. Equal entries get the mean of
// their ranks.
func ranks(v []float64) []float64 {
	order := make([]int, len(v))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(v[a], v[b]) })
	r := make([]float64, len(v))
	for lo := 0; lo < len(v); {
		hi := lo + 1
		for hi < len(v) && v[order[hi]] == v[order[lo]] {
			hi++
		}
		for _, i := range order[lo:hi] {
			r[i] = float64(lo+1+hi) / 2
		}
		lo = hi
	}
	return r
}

// spearman returns the rank correlation of x and y over the pairs where both are
// finite. It is NaN where one of them is constant.
func spearman(x, y []float64) float64 {
	var a, b []float64
	for i := range x {
		if d := x[i] - y[i]; !math.IsNaN(d) && !math.IsInf(d, 0) {
			a, b = append(a, x[i]), append(b, y[i])
		}
	}
	if len(a) == 0 {
		return math.NaN()
	}
	return stat.Correlation(ranks(a), ranks(b), nil)
}

// median returns the median of the entries of v that are not NaN, or NaN if there
// are none. For an even number it is the mean of the middle two.
func median(v []float64) float64 {
	v = slices.DeleteFunc(slices.Clone(v), math.IsNaN)
	if len(v) == 0 {
		return math.NaN()
	}
	slices.Sort(v)
	if k := len(v) / 2; len(v)%2 == 1 {
		return v[k]
	} else {
		return (v[k-1] + v[k]) / 2
	}
}
