package graph

import (
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/funcgp/funcgp/internal/dense"
)

// Dense is a dense layer z = x W + β for T rows x of each example. Input 0 has the rows, input 1 the weight as it
// is stored, and input 2, if there is one, the bias.
type Dense struct {
	T, In, Out int
	InByOut    bool // the weight is stored In×Out, otherwise Out×In
	// Tied says that the weight or the bias is also used elsewhere. Its gradient is then computed in Backward and
	// added up over the uses, instead of at a Place.
	Tied bool
	// TiedBias says this of the bias alone.
	TiedBias bool
}

func (o *Dense) multiplications() int { return o.T * o.In * o.Out }

func (o *Dense) rows(data []float64, n, cols int) blas64.General {
	return dense.Of(data, n*o.T, cols)
}

func (o *Dense) weight(s *State, nd *Node) blas64.General {
	if o.InByOut {
		return dense.Of(s.val(nd.In[1]), o.In, o.Out)
	}
	return dense.Of(s.val(nd.In[1]), o.Out, o.In)
}

// Forward implements Op.
func (o *Dense) Forward(s *State, nd *Node) {
	n := s.copies(nd.Out)
	beta := 0.0
	out := s.val(nd.Out)
	if len(nd.In) > 2 {
		beta = 1
		bias := s.val(nd.In[2])
		for i := range n * o.T {
			copy(out[i*o.Out:(i+1)*o.Out], bias)
		}
	}
	gemm(s.Team, false, !o.InByOut, o.rows(s.val(nd.In[0]), n, o.In), o.weight(s, nd), beta, o.rows(out, n, o.Out))
}

// Backward implements Op.
func (o *Dense) Backward(s *State, nd *Node) {
	dy := s.grad(nd.Out)
	if s.needsGrad(nd.In[0]) {
		beta := 1.0
		dx, first := s.gradOrNew(nd.In[0])
		if first {
			beta = 0
		}
		gemm(s.Team, false, o.InByOut, o.rows(dy, s.N, o.Out), o.weight(s, nd), beta, o.rows(dx, s.N, o.In))
	}
	if !o.Tied && !o.TiedBias {
		return
	}
	for e := range s.N {
		g := s.GradAt(nd.Out, e)
		if o.Tied && s.needsGrad(nd.In[1]) {
			gramTo(s.GradAt(nd.In[1], e), g, s.At(nd.In[0], e), o.T, o.Out, o.In, o.InByOut, 1, false)
		}
		if len(nd.In) > 2 && s.needsGrad(nd.In[2]) {
			PerPosition{T: o.T, M: o.Out}.AddBiasGradient(s.GradAt(nd.In[2], e), g)
		}
	}
}

// MatMul computes products C = A B of stacked matrices, A M×K and B K×N. None of them is the weight of a Dense.
type MatMul struct {
	M, K, N int
	Offsets [][3]int // of A, B and C in their slots, for each product
}

func (o *MatMul) multiplications() int { return len(o.Offsets) * o.M * o.K * o.N }

// Forward implements Op.
func (o *MatMul) Forward(s *State, nd *Node) {
	for e := range s.copies(nd.Out) {
		a, b, c := s.At(nd.In[0], e), s.At(nd.In[1], e), s.At(nd.Out, e)
		for _, off := range o.Offsets {
			Gemm(false, false, o.left(a, off), o.right(b, off), 0, o.result(c, off))
		}
	}
}

func (o *MatMul) left(x []float64, off [3]int) blas64.General {
	return dense.Of(x[off[0]:off[0]+o.M*o.K], o.M, o.K)
}

func (o *MatMul) right(x []float64, off [3]int) blas64.General {
	return dense.Of(x[off[1]:off[1]+o.K*o.N], o.K, o.N)
}

func (o *MatMul) result(x []float64, off [3]int) blas64.General {
	return dense.Of(x[off[2]:off[2]+o.M*o.N], o.M, o.N)
}

// Backward implements Op.
func (o *MatMul) Backward(s *State, nd *Node) {
	for e := range s.N {
		dy := s.GradAt(nd.Out, e)
		for _, off := range o.Offsets {
			if s.needsGrad(nd.In[0]) {
				Gemm(false, true, o.result(dy, off), o.right(s.At(nd.In[1], e), off), 1, o.left(s.GradAt(nd.In[0], e), off))
			}
			if s.needsGrad(nd.In[1]) {
				Gemm(true, false, o.left(s.At(nd.In[0], e), off), o.result(dy, off), 1, o.right(s.GradAt(nd.In[1], e), off))
			}
		}
	}
}
