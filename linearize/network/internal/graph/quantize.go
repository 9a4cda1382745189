package graph

import "math"

// A Quantization is the scale s and zero point z of each channel of an
// Outer×Channels×Inner tensor, or of all of it if Channels is 1.
type Quantization struct {
	Outer, Channels, Inner int
	Scale, Zero            []float64
}

// each calls do for every element and its channel.
func (q *Quantization) each(do func(i, channel int)) {
	i := 0
	for range q.Outer {
		for ch := range q.Channels {
			for range q.Inner {
				do(i, ch)
				i++
			}
		}
	}
}

// Quantize is round(x/s) + z in the range [Lo, Hi], with halves rounded to even. Its
// derivative passes straight through the rounding: it is 1/s inside of the range and
// 0 outside, as in PyTorch's fake quantization.
type Quantize struct {
	Quantization
	Lo, Hi float64
}

// Forward implements Op.
func (o *Quantize) Forward(s *State, nd *Node) {
	for e := range s.copies(nd.Out) {
		x, y := s.At(nd.In[0], e), s.At(nd.Out, e)
		o.each(func(i, ch int) { y[i] = Clamp(o.step(x[i], ch), o.Lo, o.Hi) })
	}
}

// step is the number of a step before it is brought into the range.
func (o *Quantize) step(x float64, ch int) float64 {
	return math.RoundToEven(x/o.Scale[ch]) + o.Zero[ch]
}

// Backward implements Op.
func (o *Quantize) Backward(s *State, nd *Node) {
	for e := range s.N {
		x, dx, dy := s.At(nd.In[0], e), s.GradAt(nd.In[0], e), s.GradAt(nd.Out, e)
		o.each(func(i, ch int) {
			if q := o.step(x[i], ch); q >= o.Lo && q <= o.Hi {
				dx[i] += dy[i] / o.Scale[ch]
			}
		})
	}
}

// Dequantize is (q − z)·s.
type Dequantize struct{ Quantization }

// Forward implements Op.
func (o *Dequantize) Forward(s *State, nd *Node) {
	for e := range s.copies(nd.Out) {
		o.To(s.At(nd.Out, e), s.At(nd.In[0], e))
	}
}

// To writes (q − z)·s to dst.
func (o *Dequantize) To(dst, q []float64) {
	o.each(func(i, ch int) { dst[i] = (q[i] - o.Zero[ch]) * o.Scale[ch] })
}

// Backward implements Op.
func (o *Dequantize) Backward(s *State, nd *Node) {
	for e := range s.N {
		dx, dy := s.GradAt(nd.In[0], e), s.GradAt(nd.Out, e)
		o.each(func(i, ch int) { dx[i] += dy[i] * o.Scale[ch] })
	}
}
