package integral

import (
	"math"

	"gonum.org/v1/gonum/floats"
)

// A Pivoted is a pivoted Cholesky factor of a C×C covariance, cov = L Lᵀ. L has as many columns as cov has rank.
type Pivoted struct {
	c, Rank int
	Stride  int       // columns that L has room for
	L       []float64 // C×Stride; the first Rank columns are valid
	Left    []float64 // diagonal of cov − L Lᵀ
	used    []bool    // outputs that were pivots
}

// pivotedRounding times C is the share of an output's variance below which its remaining variance counts as
// rounding error.
const pivotedRounding = 0x1p-50

// NewPivoted factors cov, c×c, by Cholesky's method. Each pivot is the output with the largest remaining variance.
// It stops where only rounding errors remain.
func NewPivoted(cov []float64, c int) *Pivoted { return NewPivotedTo(cov, c, c, math.Inf(-1)) }

// NewPivotedTo is NewPivoted that also stops after the given number of columns, and where the remaining variances
// add up to at most rest.
func NewPivotedTo(cov []float64, c, columns int, rest float64) *Pivoted {
	p := &Pivoted{c: c, Stride: columns, L: make([]float64, c*columns), Left: make([]float64, c), used: make([]bool, c)}
	for i := range c {
		p.Left[i] = cov[i*c+i]
	}
	for at := p.next(cov); at >= 0 && p.Rank < columns && !(floats.Sum(p.Left) <= rest); at = p.next(cov) {
		p.used[at] = true
		k, row, pivot := p.Rank, p.Row(at), math.Sqrt(p.Left[at])
		p.L[at*columns+k], p.Left[at] = pivot, 0
		for i := range c {
			if p.used[i] {
				continue
			}
			v := (cov[i*c+at] - floats.Dot(p.Row(i), row)) / pivot
			p.L[i*columns+k] = v
			p.Left[i] -= v * v
		}
		p.Rank++
	}
	return p
}

// Row returns the row of L for output i, Rank numbers.
func (p *Pivoted) Row(i int) []float64 { return p.L[i*p.Stride:][:p.Rank] }

// next returns the output that is the next pivot, or −1 if only rounding errors remain.
func (p *Pivoted) next(cov []float64) int {
	best, most := -1, 0.0
	for i, v := range p.Left {
		if !p.used[i] && v > most && v > pivotedRounding*float64(p.c)*cov[i*p.c+i] {
			best, most = i, v
		}
	}
	return best
}

// Least returns an upper bound on the smallest eigenvalue of cov − L Lᵀ: the smallest of 0, of its diagonal
// elements and of the eigenvalues of its 2×2 blocks.
func (p *Pivoted) Least(cov []float64) float64 {
	least, before := 0.0, []int{}
	for i, used := range p.used {
		if used {
			continue
		}
		least = min(least, p.Left[i])
		for _, j := range before {
			s := cov[i*p.c+j] - floats.Dot(p.Row(i), p.Row(j))
			least = min(least, (p.Left[i]+p.Left[j])/2-math.Hypot((p.Left[i]-p.Left[j])/2, s))
		}
		before = append(before, i)
	}
	return least
}

// PSDTol·(1 + the largest variance) is how far below zero rounding may push a variance or an eigenvalue. In logits
// this moves a probability by less than 1e-7.
const PSDTol = 1e-6
