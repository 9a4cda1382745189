package emit

import (
	"math"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/linearize/network/internal/graph"
)

// The operators of ONNX in float64, as functions of values.
func (t *tracer) mul(a, b string) string   { return t.Op("Mul", []string{a, b}) }
func (t *tracer) plus(a, b string) string  { return t.Op("Add", []string{a, b}) }
func (t *tracer) minus(a, b string) string { return t.Op("Sub", []string{a, b}) }
func (t *tracer) one(op, x string) string  { return t.Op(op, []string{x}) }

// above is 1 where x > c and 0 elsewhere.
func (t *tracer) above(x string, c float64) string {
	return t.Op("Cast", []string{t.Op("Greater", []string{x, t.Double(c)})}, "to", int(onnx.Double))
}

// atLeast is 1 where x ≥ c and 0 elsewhere.
func (t *tracer) atLeast(x string, c float64) string {
	return t.Op("Cast", []string{t.Op("GreaterOrEqual", []string{x, t.Double(c)})}, "to", int(onnx.Double))
}

// softplus is log(1 + eˣ).
func (t *tracer) softplus(x string) string {
	tail := t.one("Log", t.plus(t.Double(1), t.one("Exp", t.one("Neg", t.one("Abs", x)))))
	return t.plus(t.one("Relu", x), tail)
}

// normal is the density of the standard normal distribution.
func (t *tracer) normal(x string) string {
	return t.mul(t.one("Exp", t.mul(t.mul(x, x), t.Double(-.5))), t.Double(1/math.Sqrt(2*math.Pi)))
}

// function writes a function of elements.
func (t *tracer) function(o graph.Named, x string) string {
	name, args := o.Function()
	switch name {
	case "Tanh", "Sigmoid", "Sqrt", "Exp", "Neg", "Reciprocal", "Log", "Abs", "Sin", "Cos", "Tan", "Atan", "Sinh", "Cosh", "Floor", "Ceil", "Sign":
		return t.one(name, x)
	case "Softplus":
		return t.softplus(x)
	case "Softsign":
		return t.Op("Div", []string{x, t.plus(t.Double(1), t.one("Abs", x))})
	case "Erf":
		return t.minus(t.mul(t.Double(2), t.cdf(t.mul(x, t.Double(math.Sqrt2)))), t.Double(1))
	case "Gelu":
		return t.mul(x, t.cdf(x))
	case "GeluTanh":
		return t.mul(t.mul(x, t.Double(.5)), t.plus(t.Double(1), t.one("Tanh", t.geluArgument(x))))
	case "Mish":
		return t.mul(x, t.one("Tanh", t.softplus(x)))
	case "Swish":
		return t.mul(x, t.one("Sigmoid", t.mul(x, t.Double(args[0]))))
	case "HardSwish":
		return t.mul(x, t.clip(t.plus(t.mul(x, t.Double(1./6)), t.Double(.5)), 0, 1))
	case "HardSigmoid":
		return t.clip(t.plus(t.mul(x, t.Double(args[0])), t.Double(args[1])), 0, 1)
	case "Clip":
		return t.clip(x, args[0], args[1])
	case "LeakyRelu":
		return t.plus(t.one("Relu", x), t.mul(t.Double(-args[0]), t.one("Relu", t.one("Neg", x))))
	case "Elu": // γ·x, and γ·α·(e^(x/β) − 1) below 0
		low := t.minus(t.one("Exp", t.mul(t.Double(1/args[2]), t.Op("Min", []string{x, t.Double(0)}))), t.Double(1))
		return t.plus(t.mul(t.Double(args[1]), t.one("Relu", x)), t.mul(t.Double(args[0]*args[1]), low))
	}
	return t.refuse(o, "")
}

func (t *tracer) clip(x string, lo, hi float64) string {
	if !math.IsInf(lo, 0) {
		x = t.Op("Max", []string{x, t.Double(lo)})
	}
	if !math.IsInf(hi, 0) {
		x = t.Op("Min", []string{x, t.Double(hi)})
	}
	return x
}

func (t *tracer) geluArgument(x string) string {
	cube := t.mul(t.mul(x, x), x)
	return t.mul(t.Double(math.Sqrt(2/math.Pi)), t.plus(x, t.mul(t.Double(.044715), cube)))
}

// derivative writes the derivative of a function at x, where its value is y.
func (t *tracer) derivative(o graph.Named, x, y string) string {
	name, args := o.Function()
	one := t.Double(1)
	switch name {
	case "Tanh":
		return t.minus(one, t.mul(y, y))
	case "Sigmoid":
		return t.mul(y, t.minus(one, y))
	case "Softplus":
		return t.one("Sigmoid", x)
	case "Erf":
		return t.mul(t.Double(2*math.Sqrt2), t.normal(t.mul(x, t.Double(math.Sqrt2))))
	case "Sqrt":
		return t.mul(t.Double(.5), t.one("Reciprocal", y))
	case "Exp":
		return y
	case "Neg":
		return t.Doubles([]float64{-1}, 1, 1)
	case "Reciprocal":
		return t.one("Neg", t.mul(y, y))
	case "Log":
		return t.one("Reciprocal", x)
	case "Abs":
		return t.one("Sign", x)
	case "Sin":
		return t.one("Cos", x)
	case "Cos":
		return t.one("Neg", t.one("Sin", x))
	case "Tan":
		return t.plus(one, t.mul(y, y))
	case "Atan":
		return t.one("Reciprocal", t.plus(one, t.mul(x, x)))
	case "Sinh":
		return t.one("Cosh", x)
	case "Cosh":
		return t.one("Sinh", x)
	case "Softsign":
		d := t.plus(one, t.one("Abs", x))
		return t.one("Reciprocal", t.mul(d, d))
	case "Gelu":
		return t.plus(t.cdf(x), t.mul(x, t.normal(x)))
	case "GeluTanh":
		h := t.one("Tanh", t.geluArgument(x))
		slope := t.mul(t.Double(math.Sqrt(2/math.Pi)), t.plus(one, t.mul(t.Double(3*.044715), t.mul(x, x))))
		return t.plus(t.mul(t.Double(.5), t.plus(one, h)), t.mul(t.mul(t.mul(t.Double(.5), x), t.minus(one, t.mul(h, h))), slope))
	case "Mish":
		h := t.one("Tanh", t.softplus(x))
		return t.plus(h, t.mul(t.mul(x, t.minus(one, t.mul(h, h))), t.one("Sigmoid", x)))
	case "Swish":
		s := t.one("Sigmoid", t.mul(x, t.Double(args[0])))
		return t.plus(s, t.mul(t.mul(t.Double(args[0]), x), t.mul(s, t.minus(one, s))))
	case "HardSwish":
		inside := t.mul(t.atLeast(x, -3), t.atLeast(t.one("Neg", x), -3))
		return t.plus(t.clip(t.plus(t.mul(x, t.Double(1./6)), t.Double(.5)), 0, 1), t.mul(t.mul(x, t.Double(1./6)), inside))
	case "HardSigmoid":
		v := t.plus(t.mul(x, t.Double(args[0])), t.Double(args[1]))
		return t.mul(t.Double(args[0]), t.mul(t.above(v, 0), t.above(t.one("Neg", v), -1)))
	case "Clip":
		lo, hi := max(args[0], -math.MaxFloat64), min(args[1], math.MaxFloat64)
		return t.mul(t.atLeast(x, lo), t.atLeast(t.one("Neg", x), -hi))
	case "LeakyRelu":
		return t.plus(t.Double(args[0]), t.mul(t.Double(1-args[0]), t.above(x, 0)))
	case "Elu":
		positive := t.above(x, 0)
		low := t.mul(t.plus(y, t.Double(args[0]*args[1])), t.Double(1/args[2]))
		return t.plus(t.mul(positive, t.Double(args[1])), t.mul(t.minus(one, positive), low))
	}
	return t.refuse(o, "")
}

// cdf is the distribution function Φ of the standard normal distribution. ONNX's Erf is float32 in runtimes, so it is
// W. J. Cody's rational approximation of erfc (Math. Comp. 23, 1969, p. 631), right to 1e-15 in relative terms.
func (t *tracer) cdf(x string) string {
	z := t.mul(t.one("Abs", x), t.Double(1/math.Sqrt2))
	z2 := t.mul(z, z)
	// |z| ≤ .5: erf(z) = z·p(z²)/q(z²)
	small := t.mul(z, t.Op("Div", []string{t.polynomial(z2, erfP), t.polynomial(z2, erfQ)}))
	// .5 < z ≤ 4: erfc(z) = e^(−z²)·p(z)/q(z)
	bounded := t.Op("Min", []string{z, t.Double(4)})
	e := t.one("Exp", t.one("Neg", z2))
	middle := t.mul(e, t.Op("Div", []string{t.polynomial(bounded, erfcP), t.polynomial(bounded, erfcQ)}))
	// z > 4: erfc(z) = e^(−z²)/z·(1/√π + p(1/z²)/(z²·q(1/z²)))
	far := t.Op("Max", []string{z, t.Double(4)})
	r := t.one("Reciprocal", t.mul(far, far))
	rest := t.mul(r, t.Op("Div", []string{t.polynomial(r, tailP), t.polynomial(r, tailQ)}))
	tail := t.Op("Div", []string{t.mul(e, t.minus(t.Double(1/math.SqrtPi), rest)), far})
	upper := t.Op("Where", []string{t.Op("Greater", []string{z, t.Double(4)}), tail, middle})
	upper = t.Op("Where", []string{t.Op("Greater", []string{z, t.Double(.5)}), upper, t.minus(t.Double(1), small)})
	half := t.mul(t.Double(.5), upper) // Φ(−|x|)
	return t.Op("Where", []string{t.Op("Greater", []string{x, t.Double(0)}), t.minus(t.Double(1), half), half})
}

// polynomial evaluates a polynomial whose coefficients begin with that of the highest power.
func (t *tracer) polynomial(x string, c []float64) string {
	y := t.Double(c[0])
	for _, v := range c[1:] {
		y = t.plus(t.mul(y, x), t.Double(v))
	}
	return y
}

var (
	erfP  = []float64{1.85777706184603153e-1, 3.16112374387056560, 1.13864154151050156e2, 3.77485237685302021e2, 3.20937758913846947e3}
	erfQ  = []float64{1, 2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3, 2.84423683343917062e3}
	erfcP = []float64{2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594, 6.61191906371416295e1, 2.98635138197400131e2,
		8.81952221241769090e2, 1.71204761263407058e3, 2.05107837782607147e3, 1.23033935479799725e3}
	erfcQ = []float64{1, 1.57449261107098347e1, 1.17693950891312499e2, 5.37181101862009858e2, 1.62138957456669019e3,
		3.29079923573345963e3, 4.36261909014324716e3, 3.43936767414372164e3, 1.23033935480374942e3}
	tailP = []float64{1.63153871373020978e-2, 3.05326634961232344e-1, 3.60344899949804439e-1, 1.25781726111229246e-1, 1.60837851487422766e-2, 6.58749161529837803e-4}
	tailQ = []float64{1, 2.56852019228982242, 1.87295284992346047, 5.27905102951428412e-1, 6.05183413124413191e-2, 2.33520497626869185e-3}
)
