package graph

import (
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize"
)

// Stacked lays out weights of a recurrent layer, M×K matrices one below the other, which are applied at T
// positions. The layer's input has sequences of T states of length K, one after the other, and the result is
// T×Width.
type Stacked struct {
	T, K, M int
	From    []int // for each matrix, the sequence that it multiplies
	To      []int // for each matrix, the column of the result at which its products start
	Width   int
}

var _ linearize.Positions = Stacked{}

// Groups implements linearize.Positions.
func (p Stacked) Groups() int { return len(p.From) }

// Factors implements linearize.Positions.
func (p Stacked) Factors() (t, k, m int) { return p.T, p.K, p.M }

// sequence returns the states in x that a group's matrix multiplies.
func (p Stacked) sequence(x []float64, group int) []float64 {
	return x[p.From[group]*p.T*p.K:][:p.T*p.K]
}

// Patches implements linearize.Positions.
func (p Stacked) Patches(dst, x []float64, group int) { copy(dst, p.sequence(x, group)) }

// Gradients implements linearize.Positions.
func (p Stacked) Gradients(dst, g []float64, group int) {
	for t := range p.T {
		copy(dst[t*p.M:(t+1)*p.M], g[t*p.Width+p.To[group]:])
	}
}

// Scratch implements linearize.Positions.
func (p Stacked) Scratch() int { return 0 }

// WeightGradient implements linearize.Positions. These weights are never transposed.
func (p Stacked) WeightGradient(dst, x, g, _ []float64, _ bool, beta float64) {
	for i, to := range p.To {
		left := blas64.General{Rows: p.T, Cols: p.M, Stride: p.Width, Data: g[to:]}
		Gemm(true, false, left, dense.Of(p.sequence(x, i), p.T, p.K), beta, dense.Of(dst[i*p.M*p.K:][:p.M*p.K], p.M, p.K))
	}
}

// AddBiasGradient implements linearize.Positions.
func (p Stacked) AddBiasGradient(dst, g []float64) {
	for i, to := range p.To {
		for t := range p.T {
			dense.Axpy(dst[i*p.M:(i+1)*p.M], 1, g[t*p.Width+to:][:p.M])
		}
	}
}
