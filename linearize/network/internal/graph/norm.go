package graph

import (
	"math"
)

// Normalize subtracts from each segment of Length elements its mean and divides
// by √(variance + Eps). Segments follow one another in memory.
type Normalize struct {
	Length int
	Eps    float64
}

// Forward implements Op.
func (o *Normalize) Forward(s *State, nd *Node) {
	for e := range s.copies(nd.Out) {
		x, y := s.At(nd.In[0], e), s.At(nd.Out, e)
		for at := 0; at < len(x); at += o.Length {
			x, y := x[at:at+o.Length], y[at:at+o.Length]
			mean, inv := o.moments(x)
			for i, v := range x {
				y[i] = (v - mean) * inv
			}
		}
	}
}

// moments returns the mean of x and 1/√(variance + Eps).
func (o *Normalize) moments(x []float64) (mean, inv float64) {
	for _, v := range x {
		mean += v
	}
	mean /= float64(len(x))
	variance := 0.0
	for _, v := range x {
		variance += (v - mean) * (v - mean)
	}
	return mean, 1 / math.Sqrt(variance/float64(len(x))+o.Eps)
}

// Backward implements Op: it adds inv·(dy − mean(dy) − y·mean(dy∘y)) to dx.
func (o *Normalize) Backward(s *State, nd *Node) {
	for e := range s.N {
		x, y := s.At(nd.In[0], e), s.At(nd.Out, e)
		dx, dy := s.GradAt(nd.In[0], e), s.GradAt(nd.Out, e)
		for lo := 0; lo < len(x); lo += o.Length {
			hi := lo + o.Length
			_, inv := o.moments(x[lo:hi])
			y, dx, dy := y[lo:hi], dx[lo:hi], dy[lo:hi]
			n, mean, proj := float64(len(y)), 0.0, 0.0
			for i, g := range dy {
				mean += g / n
				proj += g * y[i] / n
			}
			for i, g := range dy {
				dx[i] += inv * (g - mean - y[i]*proj)
			}
		}
	}
}
