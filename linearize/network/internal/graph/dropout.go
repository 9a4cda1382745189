package graph

// A Dropout multiplies each element by 0 with probability Ratio, and otherwise by
// 1/(1−Ratio), which keeps its mean. It is an operation of training only.
type Dropout struct {
	Ratio float64
	Layer int // number of this dropout in the program
}

// A Dropper writes the factors of a Dropout for all elements of one example of the minibatch to dst.
type Dropper func(dst []float64, o *Dropout, example int)

// factors returns memory for the factors in a slot, for all examples of the chunk.
func (s *State) factors(slot int) []float64 {
	if s.dropped == nil {
		s.dropped = map[int][]float64{}
	}
	s.dropped[slot] = sized(s.dropped[slot], s.N*s.Program.Slots[slot].Size)
	return s.dropped[slot]
}

// Forward implements Op.
func (o *Dropout) Forward(s *State, nd *Node) {
	k, size := s.factors(nd.Out), s.Program.Slots[nd.Out].Size
	for e := range s.N {
		s.Drop(k[e*size:(e+1)*size], o, s.First+e)
	}
	x, y := s.val(nd.In[0])[:len(k)], s.val(nd.Out)[:len(k)]
	for i, f := range k {
		y[i] = f * x[i]
	}
}

// Backward implements Op.
func (o *Dropout) Backward(s *State, nd *Node) {
	k, dy := s.factors(nd.Out), s.grad(nd.Out)
	dx := s.grad(nd.In[0])[:len(k)]
	for i, f := range k {
		dx[i] += f * dy[i]
	}
}

// SeededDropper returns the Dropper of a training step. Its factors depend only on the seed, the step, the layer
// and the example.
func SeededDropper(seed uint64, step int) Dropper {
	return func(dst []float64, o *Dropout, example int) {
		keep, limit := 1/(1-o.Ratio), uint64(o.Ratio*(1<<53))
		at := mix(mix(mix(seed^0xd409)+uint64(step))+uint64(o.Layer)<<40) + uint64(example)
		at = mix(at)
		for i := range dst {
			at += golden
			dst[i] = keep
			if mix(at)>>11 < limit {
				dst[i] = 0
			}
		}
	}
}

// golden is 2⁶⁴ over the golden ratio, the increment of SplitMix64.
const golden = 0x9e3779b97f4a7c15

// mix is the output function of SplitMix64 (Steele, Lea and Flood, 2014).
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
