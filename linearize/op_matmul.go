package linearize

import (
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/funcgp/funcgp/internal/dense"
)

// dense is z = x W + β for rows x: t of them an example. The weight is used as
// stored, in×out or (transposed) out×in, through slot in[1]; the bias, if any,
// is in[2]. tied says that the weight or bias appears elsewhere too, so that
// its gradient is kept number by number.
type denseOp struct {
	t, in, out int
	inByOut    bool // the weight is stored in×out
	tied       bool
}

func (o *denseOp) products() int { return o.t * o.in * o.out }

func (o *denseOp) rows(data []float64, n, cols int) blas64.General {
	return dense.Of(data, n*o.t, cols)
}

func (o *denseOp) weight(s *state, nd *node) blas64.General {
	if o.inByOut {
		return dense.Of(s.val(nd.in[1]), o.in, o.out)
	}
	return dense.Of(s.val(nd.in[1]), o.out, o.in)
}

func (o *denseOp) forward(s *state, nd *node) {
	n := s.copies(nd.out)
	beta := 0.0
	out := s.val(nd.out)
	if len(nd.in) > 2 {
		beta = 1
		bias := s.val(nd.in[2])
		for i := range n * o.t {
			copy(out[i*o.out:(i+1)*o.out], bias)
		}
	}
	gemm(false, !o.inByOut, o.rows(s.val(nd.in[0]), n, o.in), o.weight(s, nd), beta, o.rows(out, n, o.out))
}

func (o *denseOp) backward(s *state, nd *node) {
	dy := s.grad(nd.out)
	if s.diff(nd.in[0]) {
		beta := 1.0
		dx, first := s.gradOrNew(nd.in[0])
		if first {
			beta = 0
		}
		gemm(false, o.inByOut, o.rows(dy, s.n, o.out), o.weight(s, nd), beta, o.rows(dx, s.n, o.in))
	}
	if !o.tied {
		return
	}
	for e := range s.n {
		g := s.gradAt(nd.out, e)
		if s.diff(nd.in[1]) {
			gramTo(s.gradAt(nd.in[1], e), g, s.at(nd.in[0], e), o.t, o.out, o.in, o.inByOut, 1)
		}
		if len(nd.in) > 2 && s.diff(nd.in[2]) {
			perPosition{t: o.t, m: o.out}.channelSums(s.gradAt(nd.in[2], e), g)
		}
	}
}

// matmul multiplies two tensors of which neither is a plain weight: for each
// triple of offsets, C (m×n) = A (m×k) B (k×n).
type matmul struct {
	m, k, n int
	offsets [][3]int
}

func (o *matmul) products() int { return len(o.offsets) * o.m * o.k * o.n }

func (o *matmul) forward(s *state, nd *node) {
	for e := range s.copies(nd.out) {
		a, b, c := s.at(nd.in[0], e), s.at(nd.in[1], e), s.at(nd.out, e)
		for _, off := range o.offsets {
			gemm(false, false, o.left(a, off), o.right(b, off), 0, o.result(c, off))
		}
	}
}

func (o *matmul) left(x []float64, off [3]int) blas64.General {
	return dense.Of(x[off[0]:off[0]+o.m*o.k], o.m, o.k)
}

func (o *matmul) right(x []float64, off [3]int) blas64.General {
	return dense.Of(x[off[1]:off[1]+o.k*o.n], o.k, o.n)
}

func (o *matmul) result(x []float64, off [3]int) blas64.General {
	return dense.Of(x[off[2]:off[2]+o.m*o.n], o.m, o.n)
}

func (o *matmul) backward(s *state, nd *node) {
	for e := range s.n {
		dy := s.gradAt(nd.out, e)
		for _, off := range o.offsets {
			if s.diff(nd.in[0]) {
				gemm(false, true, o.result(dy, off), o.right(s.at(nd.in[1], e), off), 1, o.left(s.gradAt(nd.in[0], e), off))
			}
			if s.diff(nd.in[1]) {
				gemm(true, false, o.left(s.at(nd.in[0], e), off), o.result(dy, off), 1, o.right(s.gradAt(nd.in[1], e), off))
			}
		}
	}
}
