package graph

import (
	"math"
)

// An Activation returns the value and the derivative of a function in a recurrent cell.
type Activation func(x float64) (y, slope float64)

// Clipped returns a function that clamps x to [−limit, limit] and then applies the activation.
func (a Activation) Clipped(limit float64) Activation {
	return func(x float64) (y, slope float64) {
		y, slope = a(Clamp(x, -limit, limit))
		return y, slope * Step(x >= -limit && x <= limit)
	}
}

// An ActivationKind is a function that ONNX names for recurrent layers, with parameters α and β.
type ActivationKind struct {
	Make        func(alpha, beta float64) Activation
	Alpha, Beta float64 // defaults; NaN for none
	Uses        int     // number of parameters of the function: 0, 1 (α) or 2
}

// as returns the activation of an elementwise function.
func as(u unary) Activation {
	return func(x float64) (y, slope float64) {
		y = u.f(x)
		return y, u.df(x, y)
	}
}

// plain is the kind of a function without parameters.
func plain(a Activation) ActivationKind {
	return ActivationKind{Make: func(_, _ float64) Activation { return a }}
}

// Activations has the functions of recurrent layers by their ONNX names in lower case.
var Activations = map[string]ActivationKind{
	"sigmoid": plain(func(x float64) (y, slope float64) { // in one call
		y = sigmoid(x)
		return y, y * (1 - y)
	}),
	"tanh": plain(func(x float64) (y, slope float64) {
		y = math.Tanh(x)
		return y, 1 - y*y
	}),
	"relu":     plain(func(x float64) (y, slope float64) { return max(x, 0), Step(x > 0) }),
	"softplus": plain(as(Softplus)),
	"softsign": plain(as(Softsign)),
	"affine": {Uses: 2, Alpha: 1, Make: func(alpha, beta float64) Activation {
		return func(x float64) (y, slope float64) { return alpha*x + beta, alpha }
	}},
	"leakyrelu": {Uses: 1, Alpha: float64(float32(0.01)), Make: func(alpha, _ float64) Activation { return as(LeakyRelu(alpha).(unary)) }},
	"thresholdedrelu": {Uses: 1, Alpha: 1, Make: func(alpha, _ float64) Activation {
		return func(x float64) (y, slope float64) {
			if x < alpha {
				return 0, 0
			}
			return x, 1
		}
	}},
	"scaledtanh": {Uses: 2, Alpha: math.NaN(), Beta: math.NaN(), Make: func(alpha, beta float64) Activation {
		return func(x float64) (y, slope float64) {
			t := math.Tanh(beta * x)
			return alpha * t, alpha * beta * (1 - t*t)
		}
	}},
	"hardsigmoid": {Uses: 2, Alpha: float64(float32(0.2)), Beta: 0.5, Make: func(alpha, beta float64) Activation { return as(HardSigmoid(alpha, beta).(unary)) }},
	"elu":         {Uses: 1, Alpha: 1, Make: func(alpha, _ float64) Activation { return as(Elu(alpha, 1, 1).(unary)) }},
}
