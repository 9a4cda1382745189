package graph

import (
	"errors"
	"math"
)

// Softmax is the softmax along the middle axis of an Outer×Length×Inner tensor,
// or its logarithm.
type Softmax struct {
	Outer, Length, Inner int
	Log                  bool
}

// lines calls do with the first element of every line along the middle axis.
func (o *Softmax) lines(do func(start int)) {
	for i := range o.Outer {
		for j := range o.Inner {
			do(i*o.Length*o.Inner + j)
		}
	}
}

// Forward implements Op.
func (o *Softmax) Forward(s *State, nd *Node) {
	for e := range s.copies(nd.Out) {
		x, y := s.At(nd.In[0], e), s.At(nd.Out, e)
		o.lines(func(start int) { o.line(y[start:], x[start:]) })
	}
}

// CheckMask returns an error if a line of x holds nothing but −Inf: it has no softmax.
func (o *Softmax) CheckMask(x []float64) error {
	var err error
	o.lines(func(start int) {
		for k := range o.Length {
			if !math.IsInf(x[start+k*o.Inner], -1) {
				return
			}
		}
		err = errors.New("a row is wholly masked by -Inf, and has no softmax")
	})
	return err
}

func (o *Softmax) line(y, x []float64) {
	top, sum := math.Inf(-1), 0.0
	for k := range o.Length {
		top = max(top, x[k*o.Inner])
	}
	for k := range o.Length {
		sum += math.Exp(x[k*o.Inner] - top)
	}
	lse := top + math.Log(sum)
	for k := range o.Length {
		y[k*o.Inner] = x[k*o.Inner] - lse
		if !o.Log {
			y[k*o.Inner] = math.Exp(y[k*o.Inner])
		}
	}
}

// Backward implements Op.
func (o *Softmax) Backward(s *State, nd *Node) {
	for e := range s.N {
		y, dx, dy := s.At(nd.Out, e), s.GradAt(nd.In[0], e), s.GradAt(nd.Out, e)
		o.lines(func(start int) { o.lineGrad(dx[start:], y[start:], dy[start:]) })
	}
}

func (o *Softmax) lineGrad(dx, y, dy []float64) {
	sum := 0.0
	for k := 0; k < o.Length*o.Inner; k += o.Inner {
		if o.Log {
			sum += dy[k]
		} else {
			sum += dy[k] * y[k]
		}
	}
	for k := 0; k < o.Length*o.Inner; k += o.Inner {
		if o.Log {
			dx[k] += dy[k] - math.Exp(y[k])*sum
		} else {
			dx[k] += y[k] * (dy[k] - sum)
		}
	}
}

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
			o.segment(y[at:at+o.Length], x[at:at+o.Length])
		}
	}
}

func (o *Normalize) segment(y, x []float64) {
	mean, inv := o.moments(x)
	for i, v := range x {
		y[i] = (v - mean) * inv
	}
}

// moments returns the mean and 1/√(variance + eps).
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

// Backward implements Op.
func (o *Normalize) Backward(s *State, nd *Node) {
	for e := range s.N {
		x, y := s.At(nd.In[0], e), s.At(nd.Out, e)
		dx, dy := s.GradAt(nd.In[0], e), s.GradAt(nd.Out, e)
		for lo := 0; lo < len(x); lo += o.Length {
			hi := lo + o.Length
			_, inv := o.moments(x[lo:hi])
			normalizeGrad(dx[lo:hi], y[lo:hi], dy[lo:hi], inv)
		}
	}
}

// normalizeGrad adds inv·(dy − mean(dy) − y·mean(dy∘y)) to dx.
func normalizeGrad(dx, y, dy []float64, inv float64) {
	n := float64(len(y))
	mean, proj := 0.0, 0.0
	for i, g := range dy {
		mean += g / n
		proj += g * y[i] / n
	}
	for i, g := range dy {
		dx[i] += inv * (g - mean - y[i]*proj)
	}
}
