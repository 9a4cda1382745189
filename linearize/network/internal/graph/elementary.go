package graph

import (
	"math"
)

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
	Sin      = unary{name: "Sin", f: math.Sin, df: func(x, _ float64) float64 { return math.Cos(x) }}
	Cos      = unary{name: "Cos", f: math.Cos, df: func(x, _ float64) float64 { return -math.Sin(x) }}
	Tan      = unary{name: "Tan", f: math.Tan, df: func(_, y float64) float64 { return 1 + y*y }}
	Asin     = unary{name: "Asin", f: math.Asin, df: func(x, _ float64) float64 { return 1 / math.Sqrt((1-x)*(1+x)) }}
	Acos     = unary{name: "Acos", f: math.Acos, df: func(x, _ float64) float64 { return -1 / math.Sqrt((1-x)*(1+x)) }}
	Atan     = unary{name: "Atan", f: math.Atan, df: func(x, _ float64) float64 { return 1 / (1 + x*x) }}
	Sinh     = unary{name: "Sinh", f: math.Sinh, df: func(x, _ float64) float64 { return math.Cosh(x) }}
	Cosh     = unary{name: "Cosh", f: math.Cosh, df: func(x, _ float64) float64 { return math.Sinh(x) }}
	Asinh    = unary{name: "Asinh", f: math.Asinh, df: func(x, _ float64) float64 { return 1 / math.Hypot(x, 1) }}
	Acosh    = unary{name: "Acosh", f: math.Acosh, df: func(x, _ float64) float64 { return 1 / math.Sqrt((x-1)*(x+1)) }}
	Atanh    = unary{name: "Atanh", f: math.Atanh, df: func(x, _ float64) float64 { return 1 / ((1 - x) * (1 + x)) }}
	Softsign = unary{
		name: "Softsign", f: func(x float64) float64 { return x / (1 + math.Abs(x)) },
		df: func(x, _ float64) float64 { return 1 / ((1 + math.Abs(x)) * (1 + math.Abs(x))) },
	}
	// PyTorch takes 0 for the derivative of functions made of constant pieces.
	Sign  = unary{name: "Sign", f: func(x float64) float64 { return sign(x) + zero(x) }, df: nil}
	Floor = unary{name: "Floor", f: math.Floor, df: nil}
	Ceil  = unary{name: "Ceil", f: math.Ceil, df: nil}
	Round = unary{name: "Round", f: math.RoundToEven, df: nil}
	// ReciprocalOrZero is 1/x, and 0 with derivative 0 at 0.
	ReciprocalOrZero = unary{
		name: "ReciprocalOrZero", f: func(x float64) float64 {
			if x == 0 {
				return 0
			}
			return 1 / x
		},
		df: func(_, y float64) float64 { return -y * y },
	}
)

// ThresholdedRelu returns x for x > α and 0 otherwise.
func ThresholdedRelu(alpha float64) Op {
	return unary{
		name: "ThresholdedRelu", args: []float64{alpha}, f: func(x float64) float64 {
			if x > alpha {
				return x
			}
			return zero(x)
		},
		df: func(x, _ float64) float64 { return Step(x > alpha) },
	}
}

// Shrink returns x + bias for x < −λ, x − bias for x > λ and 0 otherwise.
func Shrink(lambda, bias float64) Op {
	return unary{
		name: "Shrink", args: []float64{lambda, bias}, f: func(x float64) float64 {
			switch {
			case x < -lambda:
				return x + bias
			case x > lambda:
				return x - bias
			}
			return zero(x)
		},
		df: func(x, _ float64) float64 { return Step(x < -lambda || x > lambda) },
	}
}

// Swish returns x·σ(α·x).
func Swish(alpha float64) Op {
	return unary{
		name: "Swish", args: []float64{alpha}, f: func(x float64) float64 { return x * sigmoid(alpha*x) },
		df: func(x, _ float64) float64 {
			s := sigmoid(alpha * x)
			return s + alpha*x*s*(1-s)
		},
	}
}
