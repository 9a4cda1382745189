package graph

import (
	"math"
)

// Binary combines two tensors element by element, with broadcasting.
type Binary struct {
	Fn          BinaryFunc
	Left, Right []int32 // Pick's table of each operand
	run         int     // consecutive results for which each operand moves on by one element or stays; 0 for few
	a, b        int     // by operand, −1 if it moves on and 0 if it stays: i results on it has moved by i&a
}

// NewBinary returns the Op whose result has size elements.
func NewBinary(fn BinaryFunc, left, right []int32, size int) *Binary {
	o := &Binary{Fn: fn, Left: left, Right: right}
	run, a := stretch(left, size)
	length, b := stretch(right, size)
	run = min(run, length)
	const short = 8 // a loop of its own does not pay for fewer results
	if run >= short && size%run == 0 && stretches(left, size, run, a) && stretches(right, size, run, b) {
		o.run, o.a, o.b = run, a, b
	}
	return o
}

// stretch returns how many results from the first on an operand moves on by one element (moves is −1) or stays (0).
func stretch(table []int32, size int) (run, moves int) {
	if table == nil || size < 2 {
		return size, -1
	}
	step := table[1] - table[0]
	for run = 2; run < size && table[run]-table[run-1] == step; run++ {
	}
	return run, -int(step)
}

// stretches reports whether an operand moves so in each run of results.
func stretches(table []int32, size, run, moves int) bool {
	for i := range size {
		if Pick(table, i) != Pick(table, i-i%run)+i%run&moves {
			return false
		}
	}
	return true
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
		if o.run == 0 {
			for i := range out {
				out[i] = o.Fn.f(a[Pick(o.Left, i)], b[Pick(o.Right, i)])
			}
			continue
		}
		for at := 0; at < len(out); at += o.run {
			o.forward(out[at:at+o.run], a[Pick(o.Left, at):], b[Pick(o.Right, at):])
		}
	}
}

// forward computes a run of results.
func (o *Binary) forward(out, a, b []float64) {
	switch o.Fn.name {
	case "Add":
		for i := range out {
			out[i] = a[i&o.a] + b[i&o.b]
		}
	case "Sub":
		for i := range out {
			out[i] = a[i&o.a] - b[i&o.b]
		}
	case "Mul":
		for i := range out {
			out[i] = a[i&o.a] * b[i&o.b]
		}
	case "Div":
		for i := range out {
			out[i] = a[i&o.a] / b[i&o.b]
		}
	default:
		for i := range out {
			out[i] = o.Fn.f(a[i&o.a], b[i&o.b])
		}
	}
}

// Backward implements Op.
func (o *Binary) Backward(s *State, nd *Node) {
	o.side(s, nd, 0, o.Left, o.a, o.Fn.da)
	o.side(s, nd, 1, o.Right, o.b, o.Fn.db)
}

// side adds the gradient of one operand, which moves so; d is the partial derivative with respect to it. A broadcast element gets
// the sum over the elements of the result that read it. What has no influence on the outputs, as where a Where takes
// the other element, adds nothing, even if its partial derivative is not finite.
func (o *Binary) side(s *State, nd *Node, operand int, table []int32, moves int, d func(a, b, y float64) float64) {
	if !s.needsGrad(nd.In[operand]) {
		return
	}
	for e := range s.N {
		a, b, y := s.At(nd.In[0], e), s.At(nd.In[1], e), s.At(nd.Out, e)
		dy, dx := s.GradAt(nd.Out, e), s.GradAt(nd.In[operand], e)
		if o.run == 0 {
			for i, g := range dy {
				if g != 0 {
					dx[Pick(table, i)] += g * d(a[Pick(o.Left, i)], b[Pick(o.Right, i)], y[i])
				}
			}
			continue
		}
		for at := 0; at < len(dy); at += o.run {
			to := at + o.run
			o.backward(dx[Pick(table, at):], dy[at:to], a[Pick(o.Left, at):], b[Pick(o.Right, at):], y[at:to], operand, moves, d)
		}
	}
}

// backward adds the gradient of one operand for a run of results.
func (o *Binary) backward(dx, dy, a, b, y []float64, operand, moves int, d func(a, b, y float64) float64) {
	switch name := o.Fn.name; {
	case name == "Add" || name == "Sub" && operand == 0:
		for i, g := range dy {
			dx[i&moves] += g
		}
	case name == "Mul" && operand == 0:
		for i, g := range dy {
			if g != 0 {
				dx[i&moves] += g * b[i&o.b]
			}
		}
	case name == "Mul":
		for i, g := range dy {
			if g != 0 {
				dx[i&moves] += g * a[i&o.a]
			}
		}
	case name == "Div" && operand == 0:
		for i, g := range dy {
			if g != 0 {
				dx[i&moves] += g * (1 / b[i&o.b])
			}
		}
	default:
		for i, g := range dy {
			if g != 0 {
				dx[i&moves] += g * d(a[i&o.a], b[i&o.b], y[i])
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
