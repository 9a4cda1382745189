package emit

import (
	"math"

	"github.com/funcgp/funcgp/linearize/network/internal/graph"
)

// above is 1 where x > c and 0 elsewhere.
func (t *tracer) above(x string, c float64) string {
	return t.Holds("Greater", x, t.Double(c))
}

// atLeast is 1 where x ≥ c and 0 elsewhere.
func (t *tracer) atLeast(x string, c float64) string {
	return t.Holds("GreaterOrEqual", x, t.Double(c))
}

// cos is the cosine. ONNX's Cos, Tan, Sinh and Cosh are float32 in runtimes, as Erf is.
func (t *tracer) cos(x string) string { return t.Of("Sin", t.Add(x, t.Double(math.Pi/2))) }

// half is (eˣ ± e⁻ˣ)/2.
func (t *tracer) half(op, x string) string {
	return t.Mul(t.Double(.5), t.Op(op, []string{t.Of("Exp", x), t.Of("Exp", t.Of("Neg", x))}))
}

// softplus is log(1 + eˣ).
func (t *tracer) softplus(x string) string {
	tail := t.Of("Log", t.Add(t.Double(1), t.Of("Exp", t.Of("Neg", t.Of("Abs", x)))))
	return t.Add(t.Of("Relu", x), tail)
}

// normal is the density of the standard normal distribution.
func (t *tracer) normal(x string) string {
	return t.Mul(t.Of("Exp", t.Mul(t.Mul(x, x), t.Double(-.5))), t.Double(1/math.Sqrt(2*math.Pi)))
}

// function writes a function of elements.
func (t *tracer) function(o graph.Named, x string) string {
	name, args := o.Function()
	switch name {
	case "Tanh", "Sigmoid", "Sqrt", "Exp", "Neg", "Reciprocal", "Log", "Abs", "Sin", "Floor", "Ceil", "Sign":
		return t.Of(name, x)
	case "Cos":
		return t.cos(x)
	case "Tan":
		return t.Div(t.Of("Sin", x), t.cos(x))
	case "Sinh":
		return t.half("Sub", x)
	case "Cosh":
		return t.half("Add", x)
	case "Softplus":
		return t.softplus(x)
	case "Softsign":
		return t.Div(x, t.Add(t.Double(1), t.Of("Abs", x)))
	case "Erf":
		return t.Sub(t.Mul(t.Double(2), t.cdf(t.Mul(x, t.Double(math.Sqrt2)))), t.Double(1))
	case "Gelu":
		return t.Mul(x, t.cdf(x))
	case "GeluTanh":
		return t.Mul(t.Mul(x, t.Double(.5)), t.Add(t.Double(1), t.Of("Tanh", t.geluArgument(x))))
	case "Mish":
		return t.Mul(x, t.Of("Tanh", t.softplus(x)))
	case "Swish":
		return t.Mul(x, t.Of("Sigmoid", t.Mul(x, t.Double(args[0]))))
	case "HardSwish":
		return t.Mul(x, t.clip(t.Add(t.Mul(x, t.Double(1./6)), t.Double(.5)), 0, 1))
	case "HardSigmoid":
		return t.clip(t.Add(t.Mul(x, t.Double(args[0])), t.Double(args[1])), 0, 1)
	case "Clip":
		return t.clip(x, args[0], args[1])
	case "LeakyRelu":
		return t.Add(t.Of("Relu", x), t.Mul(t.Double(-args[0]), t.Of("Relu", t.Of("Neg", x))))
	case "Elu": // γ·x, and γ·α·(e^(x/β) − 1) below 0
		low := t.Sub(t.Of("Exp", t.Mul(t.Double(1/args[2]), t.Min(x, t.Double(0)))), t.Double(1))
		return t.Add(t.Mul(t.Double(args[1]), t.Of("Relu", x)), t.Mul(t.Double(args[0]*args[1]), low))
	}
	return t.refuse(o, "")
}

func (t *tracer) clip(x string, lo, hi float64) string {
	if !math.IsInf(lo, 0) {
		x = t.Max(x, t.Double(lo))
	}
	if !math.IsInf(hi, 0) {
		x = t.Min(x, t.Double(hi))
	}
	return x
}

func (t *tracer) geluArgument(x string) string {
	cube := t.Mul(t.Mul(x, x), x)
	return t.Mul(t.Double(math.Sqrt(2/math.Pi)), t.Add(x, t.Mul(t.Double(.044715), cube)))
}

// derivative writes the derivative of a function at x, where its value is y.
func (t *tracer) derivative(o graph.Named, x, y string) string {
	name, args := o.Function()
	one := t.Double(1)
	switch name {
	case "Tanh":
		return t.Sub(one, t.Mul(y, y))
	case "Sigmoid":
		return t.Mul(y, t.Sub(one, y))
	case "Softplus":
		return t.Of("Sigmoid", x)
	case "Erf":
		return t.Mul(t.Double(2*math.Sqrt2), t.normal(t.Mul(x, t.Double(math.Sqrt2))))
	case "Sqrt":
		return t.Mul(t.Double(.5), t.Of("Reciprocal", y))
	case "Exp":
		return y
	case "Neg":
		return t.Doubles([]float64{-1}, 1, 1)
	case "Reciprocal":
		return t.Of("Neg", t.Mul(y, y))
	case "Log":
		return t.Of("Reciprocal", x)
	case "Abs":
		return t.Of("Sign", x)
	case "Sin":
		return t.cos(x)
	case "Cos":
		return t.Of("Neg", t.Of("Sin", x))
	case "Tan":
		return t.Add(one, t.Mul(y, y))
	case "Sinh":
		return t.half("Add", x)
	case "Cosh":
		return t.half("Sub", x)
	case "Softsign":
		d := t.Add(one, t.Of("Abs", x))
		return t.Of("Reciprocal", t.Mul(d, d))
	case "Gelu":
		return t.Add(t.cdf(x), t.Mul(x, t.normal(x)))
	case "GeluTanh":
		h := t.Of("Tanh", t.geluArgument(x))
		slope := t.Mul(t.Double(math.Sqrt(2/math.Pi)), t.Add(one, t.Mul(t.Double(3*.044715), t.Mul(x, x))))
		return t.Add(t.Mul(t.Double(.5), t.Add(one, h)), t.Mul(t.Mul(t.Mul(t.Double(.5), x), t.Sub(one, t.Mul(h, h))), slope))
	case "Mish":
		h := t.Of("Tanh", t.softplus(x))
		return t.Add(h, t.Mul(t.Mul(x, t.Sub(one, t.Mul(h, h))), t.Of("Sigmoid", x)))
	case "Swish":
		s := t.Of("Sigmoid", t.Mul(x, t.Double(args[0])))
		return t.Add(s, t.Mul(t.Mul(t.Double(args[0]), x), t.Mul(s, t.Sub(one, s))))
	case "HardSwish":
		inside := t.Mul(t.atLeast(x, -3), t.atLeast(t.Of("Neg", x), -3))
		return t.Add(t.clip(t.Add(t.Mul(x, t.Double(1./6)), t.Double(.5)), 0, 1), t.Mul(t.Mul(x, t.Double(1./6)), inside))
	case "HardSigmoid":
		v := t.Add(t.Mul(x, t.Double(args[0])), t.Double(args[1]))
		return t.Mul(t.Double(args[0]), t.Mul(t.above(v, 0), t.above(t.Of("Neg", v), -1)))
	case "Clip":
		lo, hi := max(args[0], -math.MaxFloat64), min(args[1], math.MaxFloat64)
		return t.Mul(t.atLeast(x, lo), t.atLeast(t.Of("Neg", x), -hi))
	case "LeakyRelu":
		return t.Add(t.Double(args[0]), t.Mul(t.Double(1-args[0]), t.above(x, 0)))
	case "Elu":
		positive := t.above(x, 0)
		low := t.Mul(t.Add(y, t.Double(args[0]*args[1])), t.Double(1/args[2]))
		return t.Add(t.Mul(positive, t.Double(args[1])), t.Mul(t.Sub(one, positive), low))
	}
	return t.refuse(o, "")
}

// cdf is the distribution function Φ of the standard normal distribution. ONNX's Erf is float32 in runtimes, so it is
// W. J. Cody's rational approximation of erfc (Math. Comp. 23, 1969, p. 631), right to 1e-15 in relative terms.
func (t *tracer) cdf(x string) string {
	z := t.Mul(t.Of("Abs", x), t.Double(1/math.Sqrt2))
	z2 := t.Mul(z, z)
	// |z| ≤ .5: erf(z) = z·p(z²)/q(z²)
	small := t.Mul(z, t.Div(t.polynomial(z2, erfP), t.polynomial(z2, erfQ)))
	// .5 < z ≤ 4: erfc(z) = e^(−z²)·p(z)/q(z)
	bounded := t.Min(z, t.Double(4))
	e := t.Of("Exp", t.Of("Neg", z2))
	middle := t.Mul(e, t.Div(t.polynomial(bounded, erfcP), t.polynomial(bounded, erfcQ)))
	// z > 4: erfc(z) = e^(−z²)/z·(1/√π + p(1/z²)/(z²·q(1/z²)))
	far := t.Max(z, t.Double(4))
	r := t.Of("Reciprocal", t.Mul(far, far))
	rest := t.Mul(r, t.Div(t.polynomial(r, tailP), t.polynomial(r, tailQ)))
	tail := t.Div(t.Mul(e, t.Sub(t.Double(1/math.SqrtPi), rest)), far)
	upper := t.Where(t.Above(z, 4), tail, middle)
	upper = t.Where(t.Above(z, .5), upper, t.Sub(t.Double(1), small))
	half := t.Mul(t.Double(.5), upper) // Φ(−|x|)
	return t.Where(t.Above(x, 0), t.Sub(t.Double(1), half), half)
}

// polynomial evaluates a polynomial whose coefficients begin with that of the highest power.
func (t *tracer) polynomial(x string, c []float64) string {
	y := t.Double(c[0])
	for _, v := range c[1:] {
		y = t.Add(t.Mul(y, x), t.Double(v))
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
	tailP = []float64{1.63153871373020978e-2, 3.05326634961232344e-1, 3.60344899949804439e-1, 1.25781726111229246e-1,
		1.60837851487422766e-2, 6.58749161529837803e-4}
	tailQ = []float64{1, 2.56852019228982242, 1.87295284992346047, 5.27905102951428412e-1, 6.05183413124413191e-2,
		2.33520497626869185e-3}
)
