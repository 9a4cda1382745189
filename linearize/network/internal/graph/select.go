package graph

// Select copies elements of two tensors: out[i] is element Source[i] of the first or, if Source[i] < 0, element −1
// − Source[i] of the second. A Where with a known condition becomes a Select, and so does an operator that writes
// at known positions.
type Select struct{ Source []int32 }

// Forward implements Op.
func (o *Select) Forward(s *State, nd *Node) {
	for e := range s.copies(nd.Out) {
		a, b, out := s.At(nd.In[0], e), s.At(nd.In[1], e), s.At(nd.Out, e)
		for i, j := range o.Source {
			if j < 0 {
				out[i] = b[^j]
			} else {
				out[i] = a[j]
			}
		}
	}
}

// Backward implements Op.
func (o *Select) Backward(s *State, nd *Node) {
	first, second := s.needsGrad(nd.In[0]), s.needsGrad(nd.In[1])
	for e := range s.N {
		dy := s.GradAt(nd.Out, e)
		if first {
			da := s.GradAt(nd.In[0], e)
			for i, j := range o.Source {
				if j >= 0 {
					da[j] += dy[i]
				}
			}
		}
		if second {
			db := s.GradAt(nd.In[1], e)
			for i, j := range o.Source {
				if j < 0 {
					db[^j] += dy[i]
				}
			}
		}
	}
}
