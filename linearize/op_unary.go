package linearize

import "math"

// unary applies one function to every element.
type unary struct {
	f  func(x float64) float64
	df func(x, y float64) float64 // derivative at x, given y = f(x)
}

func (u unary) forward(s *state, nd *node) {
	out := s.val(nd.out)
	for i, x := range s.val(nd.in[0])[:len(out)] {
		out[i] = u.f(x)
	}
}

func (u unary) backward(s *state, nd *node) {
	size := s.prog.slots[nd.out].size
	for e := range s.n {
		x, y := s.at(nd.in[0], e), s.at(nd.out, e)
		dx, dy := s.gradAt(nd.in[0], e), s.gradAt(nd.out, e)
		for i := range size {
			dx[i] += dy[i] * u.df(x[i], y[i])
		}
	}
}

// relu is unary without the calls.
type relu struct{}

func (relu) forward(s *state, nd *node) {
	out := s.val(nd.out)
	for i, x := range s.val(nd.in[0])[:len(out)] {
		// The builtin max keeps a NaN.
		out[i] = max(x, 0)
	}
}

// backward passes dy where the output is positive. The selection is by mask,
// since a branch on the sign of an activation cannot be predicted.
func (relu) backward(s *state, nd *node) {
	if s.prog.slots[nd.in[0]].static {
		unary{df: func(_, y float64) float64 { return step(y > 0) }}.backward(s, nd)
		return
	}
	y, dy := s.val(nd.out), s.grad(nd.out)
	dx, first := s.gradOrNew(nd.in[0])
	y, dy = y[:len(dx)], dy[:len(dx)]
	if first {
		for i := range dx {
			dx[i] = masked(dy[i], y[i])
		}
		return
	}
	for i := range dx {
		dx[i] += masked(dy[i], y[i])
	}
}

// masked is g where y > 0 and 0 where y = 0; y is not negative.
func masked(g, y float64) float64 {
	b := math.Float64bits(y)
	return math.Float64frombits(math.Float64bits(g) & uint64(int64(-b)>>63))
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

func normalPDF(x float64) float64 { return math.Exp(-0.5*x*x) / math.Sqrt(2*math.Pi) }

func step(cond bool) float64 {
	if cond {
		return 1
	}
	return 0
}

var (
	tanhOp     = unary{math.Tanh, func(_, y float64) float64 { return 1 - y*y }}
	sigmoidOp  = unary{sigmoid, func(_, y float64) float64 { return y * (1 - y) }}
	softplusOp = unary{softplus, func(x, _ float64) float64 { return sigmoid(x) }}
	erfOp      = unary{math.Erf, func(x, _ float64) float64 { return 2 / math.SqrtPi * math.Exp(-x*x) }}
	sqrtOp     = unary{math.Sqrt, func(_, y float64) float64 { return 0.5 / y }}
	expOp      = unary{math.Exp, func(_, y float64) float64 { return y }}
	negOp      = unary{func(x float64) float64 { return -x }, func(_, _ float64) float64 { return -1 }}
	recipOp    = unary{func(x float64) float64 { return 1 / x }, func(_, y float64) float64 { return -y * y }}
	logOp      = unary{math.Log, func(x, _ float64) float64 { return 1 / x }}
	absOp      = unary{math.Abs, func(x, _ float64) float64 { return step(x > 0) - step(x < 0) }}
	geluOp     = unary{
		func(x float64) float64 { return x * normalCDF(x) },
		func(x, _ float64) float64 { return normalCDF(x) + x*normalPDF(x) },
	}
	mishOp = unary{
		func(x float64) float64 { return x * math.Tanh(softplus(x)) },
		func(x, _ float64) float64 {
			t := math.Tanh(softplus(x))
			return t + x*(1-t*t)*sigmoid(x)
		},
	}
	hardSwishOp = unary{
		func(x float64) float64 { return x * clamp(x/6+0.5, 0, 1) },
		func(x, _ float64) float64 { return clamp(x/6+0.5, 0, 1) + x/6*step(x > -3 && x < 3) },
	}
)

// geluTanh is the tanh approximation of Gelu (approximate = "tanh").
func geluTanh() unary {
	a := math.Sqrt(2 / math.Pi)
	return unary{
		func(x float64) float64 { return 0.5 * x * (1 + math.Tanh(a*(x+0.044715*x*x*x))) },
		func(x, _ float64) float64 {
			t := math.Tanh(a * (x + 0.044715*x*x*x))
			return 0.5*(1+t) + 0.5*x*(1-t*t)*a*(1+3*0.044715*x*x)
		},
	}
}

func clamp(x, lo, hi float64) float64 { return min(max(x, lo), hi) }

func leakyRelu(alpha float64) unary {
	return unary{
		func(x float64) float64 {
			if x < 0 {
				return alpha * x
			}
			return x
		},
		func(x, _ float64) float64 {
			if x > 0 {
				return 1
			}
			return alpha
		},
	}
}

// elu is γ·x for x > 0 and γ·α·(eˣ−1) otherwise; Selu has γ ≠ 1.
func elu(alpha, gamma float64) unary {
	return unary{
		func(x float64) float64 {
			if x > 0 {
				return gamma * x
			}
			return gamma * alpha * math.Expm1(x)
		},
		func(x, y float64) float64 {
			if x > 0 {
				return gamma
			}
			return y + gamma*alpha
		},
	}
}

func hardSigmoid(alpha, beta float64) unary {
	return unary{
		func(x float64) float64 { return clamp(alpha*x+beta, 0, 1) },
		func(x, _ float64) float64 {
			v := alpha*x + beta
			return alpha * step(v > 0 && v < 1)
		},
	}
}

func clip(lo, hi float64) unary {
	return unary{
		func(x float64) float64 { return clamp(x, lo, hi) },
		func(x, _ float64) float64 { return step(x >= lo && x <= hi) },
	}
}
