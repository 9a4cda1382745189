package graph

import (
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize"
)

// Stacked lays out weights of a recurrent layer, matrices M×K one below the other,
// that are applied at T positions. The layer's input holds sequences of T states
// of length K, one after the other, and the result is T×Width.
type Stacked struct {
	T, K, M int
	From    []int // the sequence that each matrix multiplies
	To      []int // the column of the result at which the products of each begin
	Width   int
}

var _ linearize.Positions = Stacked{}

// Groups implements linearize.Positions.
func (p Stacked) Groups() int { return len(p.From) }

// Factors implements linearize.Positions.
func (p Stacked) Factors() (t, k, m int) { return p.T, p.K, p.M }

// sequence returns the states that a group's matrix multiplies.
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

// WeightGradient implements linearize.Positions; no such weight is transposed.
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

// RecurrentBias repeats the biases of the products with recurrent weights at T
// positions. Input slot 0 holds the recurrent weights, which it does not read: the
// gradient of the result is that of their products. Slot 1, if there, holds the
// biases, for each of Dirs directions Width numbers for the inputs' products and
// as many for these. Without it the result is zero.
type RecurrentBias struct{ T, Dirs, Width int }

// each calls do with where each row of the result and its bias begin.
func (o *RecurrentBias) each(do func(to, from int)) {
	for t := range o.T {
		for d := range o.Dirs {
			do((t*o.Dirs+d)*o.Width, (2*d+1)*o.Width)
		}
	}
}

// Forward implements Op.
func (o *RecurrentBias) Forward(s *State, nd *Node) {
	out := s.val(nd.Out)
	if len(nd.In) < 2 {
		clear(out)
		return
	}
	bias := s.val(nd.In[1])
	o.each(func(to, from int) { copy(out[to:to+o.Width], bias[from:]) })
}

// Backward implements Op.
func (o *RecurrentBias) Backward(s *State, nd *Node) {
	if len(nd.In) < 2 || !s.needsGrad(nd.In[1]) {
		return
	}
	for e := range s.N {
		g, db := s.GradAt(nd.Out, e), s.GradAt(nd.In[1], e)
		o.each(func(to, from int) { dense.Axpy(db[from:from+o.Width], 1, g[to:to+o.Width]) })
	}
}
