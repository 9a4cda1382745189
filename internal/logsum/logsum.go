// Package logsum adds numbers given by their logarithms, without overflow.
package logsum

import "math"

// Sum is a sum of numbers given by their logarithms. Its value is sum·exp(Max), with Max the largest logarithm so
// far.
type Sum struct{ Max, sum float64 }

// New returns an empty sum, whose logarithm is −Inf.
func New() Sum { return Sum{Max: math.Inf(-1)} }

// Add adds the number whose logarithm is g.
func (s *Sum) Add(g float64) {
	switch {
	case g <= s.Max:
		if !math.IsInf(g, -1) {
			s.sum += math.Exp(g - s.Max)
		}
	default: // a new maximum or NaN
		s.sum = s.sum*math.Exp(s.Max-g) + 1
		s.Max = g
	}
}

// Value returns the logarithm of the sum.
func (s *Sum) Value() float64 { return s.Max + math.Log(s.sum) }
