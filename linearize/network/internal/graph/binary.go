package graph

import (
	"math"
)

// Binary combines two tensors element by element, with broadcasting.
type Binary struct {
	Fn          BinaryFunc
	Left, Right []int32 // Pick's table of each operand
}

// A BinaryFunc is a function of two numbers and its partial derivatives.
type BinaryFunc struct {
	f      func(a, b float64) float64
	da, db func(a, b, y float64) float64 // y = f(a, b)
	name   string                        // of the variable here, "" for RoundTo
}

// Name returns the name of the function in this package.
func (f BinaryFunc) Name() string { return f.name }

// Pick returns which element of an operand element i of the result reads:
// table[i], or i where the table is nil because nothing is broadcast.
func Pick(table []int32, i int) int {
	if table == nil {
		return i
	}
	return int(table[i])
}

// Forward implements Op.
func (o *Binary) Forward(s *State, nd *Node) {
	for e := range s.copies(nd.Out) {
		a, b, out := s.At(nd.In[0], e), s.At(nd.In[1], e), s.At(nd.Out, e)
		for i := range out {
			out[i] = o.Fn.f(a[Pick(o.Left, i)], b[Pick(o.Right, i)])
		}
	}
}

// Backward implements Op.
func (o *Binary) Backward(s *State, nd *Node) {
	o.side(s, nd, 0, o.Left, o.Fn.da)
	o.side(s, nd, 1, o.Right, o.Fn.db)
}

// side adds the gradient of one operand; d is the partial derivative with respect to it. A broadcast element gets
// the sum over the elements of the result that read it. What has no influence on the outputs, as where a Where takes
// the other element, adds nothing, even if its partial derivative is not finite.
func (o *Binary) side(s *State, nd *Node, operand int, table []int32, d func(a, b, y float64) float64) {
	if !s.needsGrad(nd.In[operand]) {
		return
	}
	for e := range s.N {
		a, b, y := s.At(nd.In[0], e), s.At(nd.In[1], e), s.At(nd.Out, e)
		dy, dx := s.GradAt(nd.Out, e), s.GradAt(nd.In[operand], e)
		for i, g := range dy {
			if g != 0 {
				dx[Pick(table, i)] += g * d(a[Pick(o.Left, i)], b[Pick(o.Right, i)], y[i])
			}
		}
	}
}

func one(_, _, _ float64) float64 { return 1 }

// half returns the derivative of a minimum or maximum: 1 for the operand that is chosen, ½ for both operands if
// they are equal (tie), as in PyTorch.
func half(chosen, tie bool) float64 { return Step(chosen) + 0.5*Step(tie) }

// The functions of two numbers, named after ONNX's operators.
var (
	Add = BinaryFunc{name: "Add", f: func(a, b float64) float64 { return a + b }, da: one, db: one}
	Sub = BinaryFunc{name: "Sub", f: func(a, b float64) float64 { return a - b }, da: one, db: func(_, _, _ float64) float64 { return -1 }}
	Mul = BinaryFunc{
		name: "Mul", f: func(a, b float64) float64 { return a * b },
		da: func(_, b, _ float64) float64 { return b },
		db: func(a, _, _ float64) float64 { return a },
	}
	Div = BinaryFunc{
		name: "Div", f: func(a, b float64) float64 { return a / b },
		da: func(_, b, _ float64) float64 { return 1 / b },
		db: func(_, b, y float64) float64 { return -y / b },
	}
	Pow = BinaryFunc{
		name: "Pow", f: pow,
		da: func(a, b, _ float64) float64 {
			if b == 0 {
				return 0
			}
			return b * pow(a, b-1)
		},
		db: func(a, b, y float64) float64 {
			if a == 0 && b >= 0 {
				return 0
			}
			return y * math.Log(a) // NaN for a < 0, where only whole exponents have a power
		},
	}
	Min = BinaryFunc{
		name: "Min", f: func(a, b float64) float64 { return min(a, b) },
		da: func(a, b, _ float64) float64 { return half(a < b, a == b) },
		db: func(a, b, _ float64) float64 { return half(b < a, a == b) },
	}
	Max = BinaryFunc{
		name: "Max", f: func(a, b float64) float64 { return max(a, b) },
		da: func(a, b, _ float64) float64 { return half(a > b, a == b) },
		db: func(a, b, _ float64) float64 { return half(b > a, a == b) },
	}
	// Fmod has the sign of the dividend.
	Fmod = BinaryFunc{name: "Fmod", f: math.Mod, da: one, db: func(a, b, _ float64) float64 { return -math.Trunc(a / b) }}

	PRelu = BinaryFunc{
		name: "PRelu", f: func(a, b float64) float64 {
			if a < 0 {
				return a * b
			}
			return a
		},
		da: func(a, b, _ float64) float64 {
			if a > 0 {
				return 1
			}
			return b
		},
		db: func(a, _, _ float64) float64 { return min(a, 0) },
	}
)

// RoundTo returns round(a) + b, clamped to [lo, hi], with halves rounded to even. Its derivative with respect to a
// ignores the rounding: it is 1 inside the range and 0 outside, as in PyTorch's fake quantization.
func RoundTo(lo, hi float64) BinaryFunc {
	step := func(a, b float64) float64 { return math.RoundToEven(a) + b }
	return BinaryFunc{
		f:  func(a, b float64) float64 { return Clamp(step(a, b), lo, hi) },
		da: func(a, b, _ float64) float64 { return Step(step(a, b) >= lo && step(a, b) <= hi) },
		db: func(_, _, _ float64) float64 { return 0 },
	}
}

// pow returns a^b as math.Pow does, but a² as a·a, which rounds once: normalization layers export squares as Pow.
func pow(a, b float64) float64 {
	if b == 2 {
		return a * a
	}
	return math.Pow(a, b)
}
