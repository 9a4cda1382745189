package graph

import (
	"math"

	"github.com/funcgp/funcgp/internal/vector"
)

// unary applies one function to every element.
type unary struct {
	f    func(x float64) float64
	df   func(x, y float64) float64 // derivative at x, given y = f(x)
	name string                     // of the variable or function here that it comes from
	args []float64                  // of that function
}

// Function implements Named.
func (u unary) Function() (name string, args []float64) { return u.name, u.args }

// A Named is an operator of elements that says which function it applies, by the name of the variable or function
// of this package that it comes from, and that function's arguments.
type Named interface {
	Op
	Function() (name string, args []float64)
}

// Forward implements Op.
func (u unary) Forward(s *State, nd *Node) {
	out := s.val(nd.Out)
	for i, x := range s.val(nd.In[0])[:len(out)] {
		out[i] = u.f(x)
	}
}

// Backward implements Op. As in a Binary, what has no influence adds nothing.
func (u unary) Backward(s *State, nd *Node) {
	size := s.Program.Slots[nd.Out].Size
	for e := range s.N {
		x, y := s.At(nd.In[0], e), s.At(nd.Out, e)
		dx, dy := s.GradAt(nd.In[0], e), s.GradAt(nd.Out, e)
		for i := range size {
			if dy[i] != 0 {
				dx[i] += dy[i] * u.df(x[i], y[i])
			}
		}
	}
}

// Relu is max(x, 0), a unary without a function call for each element.
type Relu struct{}

// Forward implements Op.
func (Relu) Forward(s *State, nd *Node) {
	out := s.val(nd.Out)
	vector.Relu(out, s.val(nd.In[0])[:len(out)])
}

// Backward passes dy where the output is positive.
func (Relu) Backward(s *State, nd *Node) {
	if s.Program.Slots[nd.In[0]].Static {
		unary{df: func(_, y float64) float64 { return Step(y > 0) }}.Backward(s, nd)
		return
	}
	y, dy := s.val(nd.Out), s.grad(nd.Out)
	dx, first := s.gradOrNew(nd.In[0])
	if first {
		vector.WherePositive(dx, dy[:len(dx)], y[:len(dx)])
		return
	}
	for i, v := range y[:len(dx)] {
		if !(v <= 0) {
			dx[i] += dy[i]
		}
	}
}

// tanh is a unary whose elements are computed several at a time.
type tanh struct{ unary }

// Forward implements Op.
func (tanh) Forward(s *State, nd *Node) {
	out := s.val(nd.Out)
	vector.Tanh(out, s.val(nd.In[0])[:len(out)])
}

// Backward implements Op.
func (u tanh) Backward(s *State, nd *Node) {
	if s.Program.Slots[nd.In[0]].Static {
		u.unary.Backward(s, nd)
		return
	}
	y, dy := s.val(nd.Out), s.grad(nd.Out)
	dx, first := s.gradOrNew(nd.In[0])
	y, dy = y[:len(dx)], dy[:len(dx)]
	if first {
		for i, v := range y {
			dx[i] = dy[i] * (1 - v*v)
		}
		return
	}
	for i, v := range y {
		dx[i] += dy[i] * (1 - v*v)
	}
}

func sigmoid(x float64) float64 {
	if x >= 0 {
		return 1 / (1 + math.Exp(-x))
	}
	e := math.Exp(x)
	return e / (1 + e)
}

func softplus(x float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }

// normalCDF is Φ(x), accurate in both tails.
func normalCDF(x float64) float64 { return 0.5 * math.Erfc(-x/math.Sqrt2) }

// Step returns 1 if the condition holds and 0 otherwise.
func Step(cond bool) float64 {
	if cond {
		return 1
	}
	return 0
}

// The elementwise functions without attributes, named after ONNX's operators.
var (
	Tanh       = tanh{unary{name: "Tanh", f: math.Tanh, df: func(_, y float64) float64 { return 1 - y*y }}}
	Sigmoid    = unary{name: "Sigmoid", f: sigmoid, df: func(_, y float64) float64 { return y * (1 - y) }}
	Softplus   = unary{name: "Softplus", f: softplus, df: func(x, _ float64) float64 { return sigmoid(x) }}
	Erf        = unary{name: "Erf", f: math.Erf, df: func(x, _ float64) float64 { return 2 / math.SqrtPi * math.Exp(-x*x) }}
	Sqrt       = unary{name: "Sqrt", f: math.Sqrt, df: func(_, y float64) float64 { return 0.5 / y }}
	Exp        = unary{name: "Exp", f: math.Exp, df: func(_, y float64) float64 { return y }}
	Neg        = unary{name: "Neg", f: func(x float64) float64 { return -x }, df: func(_, _ float64) float64 { return -1 }}
	Reciprocal = unary{name: "Reciprocal", f: func(x float64) float64 { return 1 / x }, df: func(_, y float64) float64 { return -y * y }}
	Log        = unary{name: "Log", f: math.Log, df: func(x, _ float64) float64 { return 1 / x }}
	Abs        = unary{name: "Abs", f: math.Abs, df: func(x, _ float64) float64 { return sign(x) }}
	Gelu       = unary{
		name: "Gelu", f: func(x float64) float64 { return x * normalCDF(x) },
		df: func(x, _ float64) float64 { return normalCDF(x) + x*(math.Exp(-0.5*x*x)/math.Sqrt(2*math.Pi)) },
	}
	Mish = unary{
		name: "Mish", f: func(x float64) float64 { return x * math.Tanh(softplus(x)) },
		df: func(x, _ float64) float64 {
			t := math.Tanh(softplus(x))
			return t + x*(1-t*t)*sigmoid(x)
		},
	}
	HardSwish = unary{
		name: "HardSwish", f: func(x float64) float64 { return x * Clamp(x/6+0.5, 0, 1) },
		// x/3 + ½ at −3 and 3 too, as in PyTorch.
		df: func(x, _ float64) float64 { return Clamp(x/6+0.5, 0, 1) + x/6*Step(x >= -3 && x <= 3) },
	}
)

// GeluTanh returns the tanh approximation of Gelu (approximate = "tanh").
func GeluTanh() Op {
	a := math.Sqrt(2 / math.Pi)
	return unary{
		name: "GeluTanh", f: func(x float64) float64 { return 0.5 * x * (1 + math.Tanh(a*(x+0.044715*x*x*x))) },
		df: func(x, _ float64) float64 {
			t := math.Tanh(a * (x + 0.044715*x*x*x))
			return 0.5*(1+t) + 0.5*x*(1-t*t)*a*(1+3*0.044715*x*x)
		},
	}
}

// Clamp returns the number in [lo, hi] nearest to x.
func Clamp(x, lo, hi float64) float64 { return min(max(x, lo), hi) }

// LeakyRelu returns x for x > 0 and α·x otherwise.
func LeakyRelu(alpha float64) Op {
	return unary{
		name: "LeakyRelu", args: []float64{alpha}, f: func(x float64) float64 {
			if x < 0 {
				return alpha * x
			}
			return x
		},
		df: func(x, _ float64) float64 {
			if x > 0 {
				return 1
			}
			return alpha
		},
	}
}

// Elu returns the function γ·x for x > 0 and γ·α·(e^(x/β)−1) otherwise. Selu is an Elu with γ ≠ 1, Celu an Elu with
// α = β.
func Elu(alpha, gamma, beta float64) Op {
	return unary{
		name: "Elu", args: []float64{alpha, gamma, beta}, f: func(x float64) float64 {
			if x > 0 {
				return gamma * x
			}
			return gamma * alpha * math.Expm1(x/beta)
		},
		df: func(x, y float64) float64 {
			if x > 0 {
				return gamma
			}
			return (y + gamma*alpha) / beta
		},
	}
}

// HardSigmoid returns α·x + β, clamped to [0, 1].
func HardSigmoid(alpha, beta float64) Op {
	return unary{
		name: "HardSigmoid", args: []float64{alpha, beta}, f: func(x float64) float64 { return Clamp(alpha*x+beta, 0, 1) },
		df: func(x, _ float64) float64 {
			v := alpha*x + beta
			return alpha * Step(v > 0 && v < 1)
		},
	}
}

// Clip returns x clamped to [lo, hi].
func Clip(lo, hi float64) Op {
	return unary{
		name: "Clip", args: []float64{lo, hi}, f: func(x float64) float64 { return Clamp(x, lo, hi) },
		df: func(x, _ float64) float64 { return Step(x >= lo && x <= hi) },
	}
}
