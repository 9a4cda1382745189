package graph

import "math"

// zero returns NaN for NaN and 0 for any other x.
func zero(x float64) float64 {
	if math.IsNaN(x) {
		return x
	}
	return 0
}

// The trigonometric and hyperbolic functions, their inverses and the functions with jumps or thresholds, named
// after ONNX's operators. At a threshold the derivative is 0, as in PyTorch.
var (
	Sin      = unary{math.Sin, func(x, _ float64) float64 { return math.Cos(x) }}
	Cos      = unary{math.Cos, func(x, _ float64) float64 { return -math.Sin(x) }}
	Tan      = unary{math.Tan, func(_, y float64) float64 { return 1 + y*y }}
	Asin     = unary{math.Asin, func(x, _ float64) float64 { return 1 / math.Sqrt((1-x)*(1+x)) }}
	Acos     = unary{math.Acos, func(x, _ float64) float64 { return -1 / math.Sqrt((1-x)*(1+x)) }}
	Atan     = unary{math.Atan, func(x, _ float64) float64 { return 1 / (1 + x*x) }}
	Sinh     = unary{math.Sinh, func(x, _ float64) float64 { return math.Cosh(x) }}
	Cosh     = unary{math.Cosh, func(x, _ float64) float64 { return math.Sinh(x) }}
	Asinh    = unary{math.Asinh, func(x, _ float64) float64 { return 1 / math.Hypot(x, 1) }}
	Acosh    = unary{math.Acosh, func(x, _ float64) float64 { return 1 / math.Sqrt((x-1)*(x+1)) }}
	Atanh    = unary{math.Atanh, func(x, _ float64) float64 { return 1 / ((1 - x) * (1 + x)) }}
	Softsign = unary{
		func(x float64) float64 { return x / (1 + math.Abs(x)) },
		func(x, _ float64) float64 { return 1 / ((1 + math.Abs(x)) * (1 + math.Abs(x))) },
	}
	// PyTorch takes 0 for the derivative of functions made of constant pieces.
	Sign  = unary{func(x float64) float64 { return sign(x) + zero(x) }, nil}
	Floor = unary{math.Floor, nil}
	Ceil  = unary{math.Ceil, nil}
	Round = unary{math.RoundToEven, nil}
	// ReciprocalOrZero is 1/x, and 0 with derivative 0 at 0.
	ReciprocalOrZero = unary{
		func(x float64) float64 {
			if x == 0 {
				return 0
			}
			return 1 / x
		},
		func(_, y float64) float64 { return -y * y },
	}
)

// ThresholdedRelu returns x for x > α and 0 otherwise.
func ThresholdedRelu(alpha float64) Op {
	return unary{
		func(x float64) float64 {
			if x > alpha {
				return x
			}
			return zero(x)
		},
		func(x, _ float64) float64 { return Step(x > alpha) },
	}
}

// Shrink returns x + bias for x < −λ, x − bias for x > λ and 0 otherwise.
func Shrink(lambda, bias float64) Op {
	return unary{
		func(x float64) float64 {
			switch {
			case x < -lambda:
				return x + bias
			case x > lambda:
				return x - bias
			}
			return zero(x)
		},
		func(x, _ float64) float64 { return Step(x < -lambda || x > lambda) },
	}
}

// Swish returns x·σ(α·x).
func Swish(alpha float64) Op {
	return unary{
		func(x float64) float64 { return x * sigmoid(alpha*x) },
		func(x, _ float64) float64 {
			s := sigmoid(alpha * x)
			return s + alpha*x*s*(1-s)
		},
	}
}
