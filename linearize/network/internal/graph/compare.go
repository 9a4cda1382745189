package graph

import (
	"math"

	"github.com/funcgp/funcgp/linearize"
)

// stepwise marks operators that are constant between jumps: their result carries no gradient to any input.
type stepwise interface{ stepwise() }

// Stepwise tells whether the result of an operator is constant between jumps, so that its derivative is zero
// everywhere else.
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

// Comparison returns a function that is 1 where the sign of a − b satisfies is, and 0 elsewhere. NaN is neither larger
// than a number nor smaller nor equal.
func Comparison(is func(sign int) bool) BinaryFunc {
	return BinaryFunc{f: func(a, b float64) float64 {
		if a != a || b != b {
			return Step(is(-1) && is(1)) // of unequal alone
		}
		return Step(is(int(Step(a > b)) - int(Step(a < b))))
	}}
}

// Logical returns a function of two truth values. 0 is false, and any other number is true.
func Logical(f func(a, b bool) bool) BinaryFunc {
	return BinaryFunc{f: func(a, b float64) float64 { return Step(f(a != 0, b != 0)) }}
}

// Indicator returns a function of an index and a class that is 1 where they are equal and 0 elsewhere. A negative
// index counts from the end of the classes, and an index loses its fraction.
func Indicator(classes int) BinaryFunc {
	return BinaryFunc{f: func(a, b float64) float64 {
		a = math.Trunc(a)
		return Step(a == b || a+float64(classes) == b)
	}}
}

// The functions of two numbers or one that are constant between jumps.
var (
	NotEqual = Comparison(func(sign int) bool { return sign != 0 })
	Not      = unary{f: func(x float64) float64 { return Step(x == 0) }}
	Trunc    = unary{f: math.Trunc}
	// DivTrunc and both remainders are functions of integers. Division by zero gives NaN.
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

// Where takes an element of its second input where the first, a truth value, is not zero, and of its third
// elsewhere, with broadcasting.
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

// Backward implements Op: each gradient goes to the element that was taken. The condition has no derivative.
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

// Pickup takes for each element of the result an element of the first input, at the index in the second input along
// one axis (ONNX GatherElements).
type Pickup struct {
	Base           []int32 // position of the element with index 0
	Length, Stride int     // length of the axis, and its stride in memory
	Wraps          bool    // whether negative indices count from the end of the axis; others are out of range
	Name           string  // name of the first input, for errors
}

// row returns the position on the axis for an index, or −1 for an index out of range.
func (o *Pickup) row(index float64) int {
	if index < 0 && !o.Wraps {
		return -1
	}
	return (&Lookup{Rows: o.Length}).row(index)
}

// Forward implements Op. An index out of range becomes an error later, as in Lookup.
func (o *Pickup) Forward(s *State, nd *Node) {
	for e := range s.copies(nd.Out) {
		in, index, out := s.At(nd.In[0], e), s.At(nd.In[1], e), s.At(nd.Out, e)
		for i, v := range index {
			if r := o.row(v); r >= 0 {
				out[i] = in[int(o.Base[i])+r*o.Stride]
			} else {
				out[i] = 0
				s.outOfRange(&linearize.IndexError{Row: e, Column: s.Program.column(nd.In[1], i), Index: v, Table: o.Name, Rows: o.Length, FromStart: !o.Wraps})
			}
		}
	}
}

// Backward implements Op.
func (o *Pickup) Backward(s *State, nd *Node) {
	for e := range s.N {
		dx, index, dy := s.GradAt(nd.In[0], e), s.At(nd.In[1], e), s.GradAt(nd.Out, e)
		for i, v := range index {
			if r := o.row(v); r >= 0 {
				dx[int(o.Base[i])+r*o.Stride] += dy[i]
			}
		}
	}
}
