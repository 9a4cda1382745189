package graph

import (
	"github.com/funcgp/funcgp/internal/dense"
)

// Index copies elements: out[i] = in[Source[i]], or Fill where Source[i] < 0.
// Transpose, Slice, Split, Gather, Pad, Resize and Expand all become an Index.
type Index struct {
	Source []int32
	Fill   float64
}

// Forward implements Op.
func (o *Index) Forward(s *State, nd *Node) {
	for e := range s.copies(nd.Out) {
		in, out := s.At(nd.In[0], e), s.At(nd.Out, e)
		for i, j := range o.Source {
			if j < 0 {
				out[i] = o.Fill
			} else {
				out[i] = in[j]
			}
		}
	}
}

// Backward implements Op.
func (o *Index) Backward(s *State, nd *Node) {
	for e := range s.N {
		dx, dy := s.GradAt(nd.In[0], e), s.GradAt(nd.Out, e)
		for i, j := range o.Source {
			if j >= 0 {
				dx[j] += dy[i]
			}
		}
	}
}

// Concat joins tensors along an axis. It sees them as matrices with Outer rows, and puts them side by side.
type Concat struct {
	Outer int
	Width []int // columns of each input
}

// each calls do for every row of every input: with its width, and its start in the input (from) and in the result
// (to).
func (o *Concat) each(s *State, nd *Node, count int, do func(input, e, from, to, width int)) {
	total := 0
	for _, w := range o.Width {
		total += w
	}
	for e := range count {
		at := 0
		for k, w := range o.Width {
			for i := range o.Outer {
				do(k, e, i*w, i*total+at, w)
			}
			at += w
		}
	}
}

// Forward implements Op.
func (o *Concat) Forward(s *State, nd *Node) {
	o.each(s, nd, s.copies(nd.Out), func(k, e, from, to, w int) {
		copy(s.At(nd.Out, e)[to:to+w], s.At(nd.In[k], e)[from:from+w])
	})
}

// Backward implements Op.
func (o *Concat) Backward(s *State, nd *Node) {
	o.each(s, nd, s.N, func(k, e, from, to, w int) {
		if s.needsGrad(nd.In[k]) {
			dense.Axpy(s.GradAt(nd.In[k], e)[from:from+w], 1, s.GradAt(nd.Out, e)[to:to+w])
		}
	})
}

// Reduce adds up groups of input elements and multiplies the sums by Scale.
type Reduce struct {
	Target []int32 // the output element to which each input element is added
	Scale  float64
}

// Forward implements Op.
func (o *Reduce) Forward(s *State, nd *Node) {
	for e := range s.copies(nd.Out) {
		in, out := s.At(nd.In[0], e), s.At(nd.Out, e)
		clear(out)
		for i, t := range o.Target {
			out[t] += in[i]
		}
		for i := range out {
			out[i] *= o.Scale
		}
	}
}

// Backward implements Op.
func (o *Reduce) Backward(s *State, nd *Node) {
	for e := range s.N {
		dx, dy := s.GradAt(nd.In[0], e), s.GradAt(nd.Out, e)
		for i, t := range o.Target {
			dx[i] += o.Scale * dy[t]
		}
	}
}
