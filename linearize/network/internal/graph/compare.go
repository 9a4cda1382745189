package graph

import "math"

// stepwise marks functions that are constant between jumps: their result carries no
// gradient to any input.
type stepwise interface{ stepwise() }

// Stepwise reports whether the result of an operator is constant between jumps, so
// that it has no derivative anywhere else.
func Stepwise(o Op) bool {
	if b, ok := o.(*Binary); ok {
		return b.Fn.da == nil
	}
	if u, ok := o.(unary); ok {
		return u.df == nil
	}
	_, ok := o.(stepwise)
	return ok
}

// compare returns a function that is 1 where a condition holds and 0 elsewhere.
func compare(holds func(a, b float64) bool) BinaryFunc {
	return BinaryFunc{f: func(a, b float64) float64 { return Step(holds(a, b)) }}
}

// The comparisons and the functions of truth values, which are 0 or 1.
var (
	Equal          = compare(func(a, b float64) bool { return a == b })
	NotEqual       = compare(func(a, b float64) bool { return a != b })
	Greater        = compare(func(a, b float64) bool { return a > b })
	GreaterOrEqual = compare(func(a, b float64) bool { return a >= b })
	Less           = compare(func(a, b float64) bool { return a < b })
	LessOrEqual    = compare(func(a, b float64) bool { return a <= b })
	And            = compare(func(a, b float64) bool { return a != 0 && b != 0 })
	Or             = compare(func(a, b float64) bool { return a != 0 || b != 0 })

	Not   = unary{f: func(x float64) float64 { return Step(x == 0) }}
	Trunc = unary{f: math.Trunc}
	// DivTrunc and the two remainders are those of integers. A division by zero is
	// none: the result is NaN.
	DivTrunc = BinaryFunc{f: func(a, b float64) float64 { return math.Trunc(a / b) }}
	Rem      = BinaryFunc{f: math.Mod}
	Mod      = BinaryFunc{f: func(a, b float64) float64 {
		m := math.Mod(a, b)
		if m != 0 && (m < 0) != (b < 0) {
			m += b
		}
		return m
	}}
)

// Where takes elements of its second input where the first, a truth value, is not
// zero, and of its third elsewhere, with broadcasting.
type Where struct{ Cond, Left, Right []int32 } // Pick's table of each input

// Forward implements Op.
func (o *Where) Forward(s *State, nd *Node) {
	for e := range s.copies(nd.Out) {
		cond, a, b, out := s.At(nd.In[0], e), s.At(nd.In[1], e), s.At(nd.In[2], e), s.At(nd.Out, e)
		for i := range out {
			if cond[Pick(o.Cond, i)] != 0 {
				out[i] = a[Pick(o.Left, i)]
			} else {
				out[i] = b[Pick(o.Right, i)]
			}
		}
	}
}

// Backward implements Op: each gradient goes to the element that was taken. The
// condition has no derivative.
func (o *Where) Backward(s *State, nd *Node) {
	o.side(s, nd, 1, o.Left, true)
	o.side(s, nd, 2, o.Right, false)
}

func (o *Where) side(s *State, nd *Node, operand int, table []int32, taken bool) {
	if !s.needsGrad(nd.In[operand]) {
		return
	}
	for e := range s.N {
		cond, dy, dx := s.At(nd.In[0], e), s.GradAt(nd.Out, e), s.GradAt(nd.In[operand], e)
		for i, g := range dy {
			if (cond[Pick(o.Cond, i)] != 0) == taken {
				dx[Pick(table, i)] += g
			}
		}
	}
}
