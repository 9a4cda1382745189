package explain

import (
	"cmp"
	"math"
	"slices"
)

// A Subtotal is what the training examples of one group contribute together.
type Subtotal struct {
	Examples int
	Positive float64 // Σ of their positive terms
	Negative float64 // Σ of their negative terms
}

// Sum returns the sum of all terms of the group.
func (s Subtotal) Sum() float64 { return s.Positive + s.Negative }

// A CurvePoint gives the sums over the terms that are largest in absolute value.
type CurvePoint struct {
	Terms int     // the number of terms, 0 to N
	Sum   float64 // Σ v of these terms
	Abs   float64 // Σ |v| of these terms
}

// numberOfGroups checks the groups of n examples and returns their number.
func numberOfGroups(groups []int, n int) int {
	if groups != nil && len(groups) != n {
		panic("explain: the groups do not match the training data")
	}
	most := 0
	for _, g := range groups {
		if g < 0 {
			panic("explain: negative group")
		}
		most = max(most, g+1)
	}
	return most
}

// subtotals adds up terms by group.
type subtotals []subtotal

type subtotal struct {
	n                  int
	positive, negative sum
}

func (s *subtotal) add(v float64) {
	s.n++
	if v < 0 {
		s.negative.add(v)
	} else {
		s.positive.add(v)
	}
}

func (s subtotals) values() []Subtotal {
	var list []Subtotal
	for i := range s {
		list = append(list, Subtotal{Examples: s[i].n, Positive: s[i].positive.value(), Negative: s[i].negative.value()})
	}
	return list
}

// curve returns cumulative sums of the terms, largest in absolute value first: after each of the
// first 32, then at counts that grow by a twentieth, and after the last. It sorts terms in place;
// equal sizes keep the data's order.
func curve(terms []float64) []CurvePoint {
	if terms == nil {
		return nil
	}
	slices.SortStableFunc(terms, func(a, b float64) int { return cmp.Compare(math.Abs(b), math.Abs(a)) })
	points := []CurvePoint{{}}
	next := 1
	var total, size sum
	for i, v := range terms {
		total.add(v)
		size.add(math.Abs(v))
		if n := i + 1; n == next || n == len(terms) {
			points = append(points, CurvePoint{Terms: n, Sum: total.value(), Abs: size.value()})
			next = n + max(1, n/20)
			if n < 32 {
				next = n + 1
			}
		}
	}
	return points
}
