package graph

// Extremes finds the positions of the K largest elements, largest first, along the middle axis of a tensor seen as
// Outer×Length×Inner: ONNX's ArgMax (K = 1) and TopK.
type Extremes struct {
	Outer, Length, Inner, K int
	Min                     bool // find the smallest elements
	Last                    bool // of equal elements, the later one is first
}

func (*Extremes) stepwise() {}

// Forward implements Op. It inserts each element into the list of the K best so far.
func (o *Extremes) Forward(s *State, nd *Node) {
	for e := range s.copies(nd.Out) {
		in, out := s.At(nd.In[0], e), s.At(nd.Out, e)
		for lane := range o.Outer * o.Inner {
			outer, inner := lane/o.Inner, lane%o.Inner
			first, to := outer*o.Length*o.Inner+inner, outer*o.K*o.Inner+inner
			for k := range o.Length {
				at := min(k, o.K)
				for ; at > 0; at-- {
					before := out[to+(at-1)*o.Inner]
					x, y := in[first+k*o.Inner], in[first+int(before)*o.Inner]
					if o.Min {
						x, y = y, x
					}
					if !(x > y || o.Last && x == y) {
						break
					}
					if at < o.K {
						out[to+at*o.Inner] = before
					}
				}
				if at < o.K {
					out[to+at*o.Inner] = float64(k)
				}
			}
		}
	}
}

// Backward implements Op. A position has no derivative.
func (*Extremes) Backward(*State, *Node) {}
