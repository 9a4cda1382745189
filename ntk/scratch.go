package ntk

import (
	"sync"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
)

// examples is a half-open range of examples.
type examples struct{ lo, hi int }

func (e examples) len() int { return e.hi - e.lo }

// of returns the rows of m that belong to the examples, c rows each.
func (e examples) of(m *mat.Dense, c int) blas64.General {
	return dense.Rows(m.RawMatrix(), e.lo*c, e.hi*c)
}

// split calls do with consecutive parts of at most size examples.
func (e examples) split(size int, do func(examples)) {
	for lo := e.lo; lo < e.hi; lo += size {
		do(examples{lo, min(lo+size, e.hi)})
	}
}

// even calls do with consecutive parts of nearly the same size, at most size
// examples each.
func (e examples) even(size int, do func(examples)) {
	parts := max(1, (e.len()+max(1, size)-1)/max(1, size))
	e.split(max(1, (e.len()+parts-1)/parts), do)
}

// A scratch is the memory of one worker, with one buffer per use. Buffers grow as
// needed.
type scratch struct{ buf [slots][]float64 }

var scratches = sync.Pool{New: func() any { return new(scratch) }}

const (
	slotInner = iota // products of a layer's inputs
	slotOuter        // products of a layer's gradients
	slotLeft
	slotRight
	slotPatches
	slotGradients
	slotPatches2
	slotGradients2
	slotTile
	slotColumns
	slots
)

// floats returns memory of undefined content, valid until the slot's next use.
func (s *scratch) floats(slot, n int) []float64 {
	if cap(s.buf[slot]) < n {
		s.buf[slot] = make([]float64, n)
	}
	return s.buf[slot][:n]
}

func (s *scratch) general(slot, rows, cols int) blas64.General {
	return dense.Of(s.floats(slot, rows*cols), rows, cols)
}

// dense is like general and returns a *mat.Dense; rows and cols must be positive.
func (s *scratch) dense(slot, rows, cols int) *mat.Dense {
	return mat.NewDense(rows, cols, s.floats(slot, rows*cols))
}

// mulTrans computes dst = α a bᵀ + β dst inside a worker.
func mulTrans(alpha float64, a, b blas64.General, beta float64, dst blas64.General) {
	dense.Gemm1(blas.NoTrans, blas.Trans, alpha, a, b, beta, dst)
}

// transMul computes dst = aᵀ b + β dst inside a worker.
func transMul(a, b blas64.General, beta float64, dst blas64.General) {
	dense.Gemm1(blas.Trans, blas.NoTrans, 1, a, b, beta, dst)
}

// mul computes dst = a b + β dst inside a worker.
func mul(a, b blas64.General, beta float64, dst blas64.General) {
	dense.Gemm1(blas.NoTrans, blas.NoTrans, 1, a, b, beta, dst)
}
