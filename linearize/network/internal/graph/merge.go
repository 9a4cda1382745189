package graph

import (
	"math"

	"github.com/funcgp/funcgp/internal/logsum"
)

// Merge keeps some elements of a vector and joins the others into one,
// log Σ_{i∈Rest} exp(in_i), which follows those that are kept if Rest is not empty:
// a softmax of the result gives the kept elements the probabilities that a softmax
// of the whole vector gives them, and the last one the sum of the others.
type Merge struct {
	Keep, Rest []int
}

// Forward implements Op.
func (o *Merge) Forward(s *State, nd *Node) {
	for e := range s.copies(nd.Out) {
		in, out := s.At(nd.In[0], e), s.At(nd.Out, e)
		for k, i := range o.Keep {
			out[k] = in[i]
		}
		if len(o.Rest) == 0 {
			continue
		}
		sum := logsum.New()
		for _, i := range o.Rest {
			sum.Add(in[i])
		}
		out[len(o.Keep)] = sum.Value()
	}
}

// Backward implements Op.
func (o *Merge) Backward(s *State, nd *Node) {
	for e := range s.N {
		in, out := s.At(nd.In[0], e), s.At(nd.Out, e)
		dx, dy := s.GradAt(nd.In[0], e), s.GradAt(nd.Out, e)
		for k, i := range o.Keep {
			dx[i] += dy[k]
		}
		for _, i := range o.Rest {
			dx[i] += dy[len(o.Keep)] * math.Exp(in[i]-out[len(o.Keep)])
		}
	}
}
