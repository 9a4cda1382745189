package audit

import (
	"cmp"
	"math"
	"slices"
)

// rank sorts the examples by each score.
func (a *auditor) rank() {
	a.audit.Mislabelled = a.ranking(func(x *Example) float64 { return x.LogDensity })
	a.audit.Leverage = a.ranking(func(x *Example) float64 { return -x.Leverage })
	if len(a.audit.Examples[0].Probability) > 0 {
		a.audit.Boundary = a.ranking(func(x *Example) float64 { return -x.Entropy })
	}
	for k := range a.audit.Examples {
		if v := a.audit.Examples[k].Leverage; !math.IsNaN(v) {
			a.audit.Effective += v
		}
	}
}

// ranking returns the positions of the examples sorted by key, the lowest first, without those whose key is NaN.
func (a *auditor) ranking(key func(x *Example) float64) []int {
	var order []int
	for k := range a.audit.Examples {
		if !math.IsNaN(key(&a.audit.Examples[k])) {
			order = append(order, k)
		}
	}
	slices.SortStableFunc(order, func(i, j int) int {
		return cmp.Compare(key(&a.audit.Examples[i]), key(&a.audit.Examples[j]))
	})
	return order
}
