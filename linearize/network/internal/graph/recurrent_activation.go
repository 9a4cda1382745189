package graph

import "math"

// An Activation is a function of a recurrent cell and its derivative.
type Activation func(x float64) (y, slope float64)

// Clipped returns the activation of x clamped to [−limit, limit].
func (a Activation) Clipped(limit float64) Activation {
	return func(x float64) (y, slope float64) {
		y, slope = a(Clamp(x, -limit, limit))
		return y, slope * Step(x >= -limit && x <= limit)
	}
}

// An ActivationKind is one of the functions that ONNX names for recurrent layers,
// made from its parameters α and β.
type ActivationKind struct {
	Make        func(alpha, beta float64) Activation
	Alpha, Beta float64 // defaults, NaN where there is none
	Uses        int     // how many of α and β the function has
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

// Activations holds the functions of recurrent layers by their names in ONNX, in
// lower case.
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
