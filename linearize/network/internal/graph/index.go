package graph

// Index copies elements of its inputs, which lie one after another: out[i] is element Source[i], or Fill where
// Source[i] < 0. Whatever moves, joins or chooses elements at known positions becomes an Index.
type Index struct {
	Source []int32
	Fill   float64
}

// inputOf returns the input of a node that holds element j of the inputs one after another, and its first element.
func (p *Program) inputOf(nd *Node, j int) (input, first int) {
	for j-first >= p.Slots[nd.In[input]].Size {
		first += p.Slots[nd.In[input]].Size
		input++
	}
	return input, first
}

// Forward implements Op.
func (o *Index) Forward(s *State, nd *Node) {
	for e := range s.copies(nd.Out) {
		out, in, first := s.At(nd.Out, e), s.At(nd.In[0], e), 0
		for i, j := range o.Source {
			if j < 0 {
				out[i] = o.Fill
				continue
			}
			if at := int(j) - first; at < 0 || at >= len(in) {
				var k int
				k, first = s.Program.inputOf(nd, int(j))
				in = s.At(nd.In[k], e)
			}
			out[i] = in[int(j)-first]
		}
	}
}

// Backward implements Op.
func (o *Index) Backward(s *State, nd *Node) {
	for e := range s.N {
		dy, first, size := s.GradAt(nd.Out, e), 0, 0
		var dx []float64 // nil for an input that needs no gradient
		for i, j := range o.Source {
			if j < 0 {
				continue
			}
			if at := int(j) - first; at < 0 || at >= size {
				var k int
				k, first = s.Program.inputOf(nd, int(j))
				slot := nd.In[k]
				if size, dx = s.Program.Slots[slot].Size, nil; s.needsGrad(slot) {
					dx = s.GradAt(slot, e)
				}
			}
			if dx != nil {
				dx[int(j)-first] += dy[i]
			}
		}
	}
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
