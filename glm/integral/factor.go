package integral

import (
	"math"

	"gonum.org/v1/gonum/floats"
)

// A Pivoted is a factor of a covariance, cov = L Lᵀ, with as many columns as it
// has rank.
type Pivoted struct {
	c, Rank int
	Stride  int       // columns that l has room for
	L       []float64 // C×stride; only the first rank columns are valid
	Left    []float64 // diagonal of cov − L Lᵀ for the columns so far
	used    []bool    // outputs that were pivots
}

// pivotedRounding times C is the fraction of a variance below which the remainder
// counts as rounding error.
const pivotedRounding = 0x1p-50

// NewPivoted factors cov by Cholesky's method. The next pivot is the output with
// the largest remaining variance. It stops where only rounding errors remain.
func NewPivoted(cov []float64, c int) *Pivoted { return NewPivotedTo(cov, c, c, math.Inf(-1)) }

// NewPivotedTo is NewPivoted that also stops after a number of columns, and where
// the remaining variances add up to rest or less.
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

// row returns the row of output i.
func (p *Pivoted) Row(i int) []float64 { return p.L[i*p.Stride:][:p.Rank] }

// next returns the next pivot, or −1.
func (p *Pivoted) next(cov []float64) int {
	best, most := -1, 0.0
	for i, v := range p.Left {
		if !p.used[i] && v > most && v > pivotedRounding*float64(p.c)*cov[i*p.c+i] {
			best, most = i, v
		}
	}
	return best
}

// least returns an upper bound on the smallest eigenvalue of cov − L Lᵀ: the
// smallest of 0, the diagonal elements and the eigenvalues of the 2×2 blocks.
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

// PSDTol times 1 + the largest is how far below zero rounding may push a variance
// or an eigenvalue. In logits it moves a probability by less than 1e-7.
const PSDTol = 1e-6
