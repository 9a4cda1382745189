package graph

import (
	"errors"
	"math"
)

// Softmax is the softmax along the middle axis of an Outer×Length×Inner tensor, or its logarithm if Log.
type Softmax struct {
	Outer, Length, Inner int
	Log                  bool
}

// lines calls do with the position of the first element of every line along the middle axis.
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
		o.lines(func(start int) {
			x, y := x[start:], y[start:]
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
		})
	}
}

// CheckMask returns an error if a line of x is −Inf throughout, because it has no softmax.
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

// Backward implements Op.
func (o *Softmax) Backward(s *State, nd *Node) {
	for e := range s.N {
		y, dx, dy := s.At(nd.Out, e), s.GradAt(nd.In[0], e), s.GradAt(nd.Out, e)
		o.lines(func(start int) {
			y, dx, dy := y[start:], dx[start:], dy[start:]
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
		})
	}
}
