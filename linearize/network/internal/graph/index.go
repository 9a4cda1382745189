package graph

import (
	"github.com/funcgp/funcgp/internal/dense"
)

// Index copies elements: out[i] = in[source[i]], or fill where source[i] < 0.
// Transpose, Slice, Split, Gather, Pad, Resize and Expand are all an index.
type Index struct {
	Source []int32
	Fill   float64
}

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

// Concat lays its inputs side by side: outer slabs of width[k] elements from
// input k each.
type Concat struct {
	Outer int
	Width []int
}

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

func (o *Concat) Forward(s *State, nd *Node) {
	o.each(s, nd, s.copies(nd.Out), func(k, e, from, to, w int) {
		copy(s.At(nd.Out, e)[to:to+w], s.At(nd.In[k], e)[from:from+w])
	})
}

func (o *Concat) Backward(s *State, nd *Node) {
	o.each(s, nd, s.N, func(k, e, from, to, w int) {
		if s.needsGrad(nd.In[k]) {
			dense.Axpy(s.GradAt(nd.In[k], e)[from:from+w], 1, s.GradAt(nd.Out, e)[to:to+w])
		}
	})
}

// Reduce sums the inputs with the same target and multiplies by scale.
type Reduce struct {
	Target []int32 // for each input element
	Scale  float64
}

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

func (o *Reduce) Backward(s *State, nd *Node) {
	for e := range s.N {
		dx, dy := s.GradAt(nd.In[0], e), s.GradAt(nd.Out, e)
		for i, t := range o.Target {
			dx[i] += o.Scale * dy[t]
		}
	}
}
