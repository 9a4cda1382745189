package glm

import (
	"math"

	"gonum.org/v1/gonum/floats"
)

// A pivoted is a factor of a covariance, cov = L Lᵀ, with as many columns as it
// has rank.
type pivoted struct {
	c, rank int
	stride  int       // columns that l has room for
	l       []float64 // C×stride; only the first rank columns are valid
	left    []float64 // diagonal of cov − L Lᵀ for the columns so far
	used    []bool    // outputs that were pivots
}

// pivotedRounding times C is the fraction of a variance below which the remainder
// counts as rounding error.
const pivotedRounding = 0x1p-50

// newPivoted factors cov by Cholesky's method. The next pivot is the output with
// the largest remaining variance. It stops where only rounding errors remain.
func newPivoted(cov []float64, c int) *pivoted { return newPivotedTo(cov, c, c, math.Inf(-1)) }

// newPivotedTo is newPivoted that also stops after a number of columns, and where
// the remaining variances add up to rest or less.
func newPivotedTo(cov []float64, c, columns int, rest float64) *pivoted {
	p := &pivoted{c: c, stride: columns, l: make([]float64, c*columns), left: make([]float64, c), used: make([]bool, c)}
	for i := range c {
		p.left[i] = cov[i*c+i]
	}
	for at := p.next(cov); at >= 0 && p.rank < columns && !(floats.Sum(p.left) <= rest); at = p.next(cov) {
		p.used[at] = true
		k, row, pivot := p.rank, p.row(at), math.Sqrt(p.left[at])
		p.l[at*columns+k], p.left[at] = pivot, 0
		for i := range c {
			if p.used[i] {
				continue
			}
			v := (cov[i*c+at] - floats.Dot(p.row(i), row)) / pivot
			p.l[i*columns+k] = v
			p.left[i] -= v * v
		}
		p.rank++
	}
	return p
}

// row returns the row of output i.
func (p *pivoted) row(i int) []float64 { return p.l[i*p.stride:][:p.rank] }

// next returns the next pivot, or −1.
func (p *pivoted) next(cov []float64) int {
	best, most := -1, 0.0
	for i, v := range p.left {
		if !p.used[i] && v > most && v > pivotedRounding*float64(p.c)*cov[i*p.c+i] {
			best, most = i, v
		}
	}
	return best
}

// least returns an upper bound on the smallest eigenvalue of cov − L Lᵀ: the
// smallest of 0, the diagonal elements and the eigenvalues of the 2×2 blocks.
func (p *pivoted) least(cov []float64) float64 {
	least, before := 0.0, []int{}
	for i, used := range p.used {
		if used {
			continue
		}
		least = min(least, p.left[i])
		for _, j := range before {
			s := cov[i*p.c+j] - floats.Dot(p.row(i), p.row(j))
			least = min(least, (p.left[i]+p.left[j])/2-math.Hypot((p.left[i]-p.left[j])/2, s))
		}
		before = append(before, i)
	}
	return least
}

// psdTol times 1 + the largest is how far below zero rounding may push a variance
// or an eigenvalue. In logits it moves a probability by less than 1e-7.
const psdTol = 1e-6
