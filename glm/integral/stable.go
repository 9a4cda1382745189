package integral

import "math"

// Sigmoid returns σ(f) = 1/(1+e⁻ᶠ) to a few units in the last place for any f. Sigmoid(−f) is 1 − σ(f) to the same
// precision.
func Sigmoid(f float64) float64 {
	e := math.Exp(-math.Abs(f))
	if f < 0 {
		return e / (1 + e)
	}
	return 1 / (1 + e)
}

// SigmoidSlope returns σ(f)(1−σ(f)) = e⁻|ᶠ| / (1+e⁻|ᶠ|)².
func SigmoidSlope(f float64) float64 {
	e := math.Exp(-math.Abs(f))
	return e / ((1 + e) * (1 + e))
}

// Softplus returns log(1+eᶠ).
func Softplus(f float64) float64 {
	return math.Max(f, 0) + math.Log1p(math.Exp(-math.Abs(f)))
}

// LogSigmoid returns log σ(f).
func LogSigmoid(f float64) float64 { return -Softplus(-f) }

// SoftmaxTo writes p_c = eᶠᶜ / Σ eᶠˡ. It returns log Σ eᶠˡ in two parts, top = max f and logRest, whose sum it is.
// The log probability of the likeliest class, −logRest, then keeps its digits.
func SoftmaxTo(p, f []float64) (logRest, top float64) {
	k := Argmax(f)
	top = f[k]
	rest := 0.0
	for j, v := range f {
		p[j] = math.Exp(v - top)
		if j != k {
			rest += p[j]
		}
	}
	for j := range p {
		p[j] /= 1 + rest
	}
	return math.Log1p(rest), top
}

// Complement returns 1 − p_j for probabilities p that sum to 1. For p_j > ½ it adds up the others, so that no
// digits cancel.
func Complement(p []float64, j int) float64 {
	if p[j] <= 0.5 {
		return 1 - p[j]
	}
	// 1 − p_j = Σ_{l≠j} p_l
	rest := 0.0
	for l, v := range p {
		if l != j {
			rest += v
		}
	}
	return rest
}

// Argmax returns the index of the largest entry, the first of several.
func Argmax(v []float64) int {
	k := 0
	for i, x := range v {
		if x > v[k] {
			k = i
		}
	}
	return k
}

const HalfLog2Pi = 0.91893853320467274178032973640561763986139747363778 // ½ log 2π

// LogNormalCDF returns log Φ(x) without underflow.
func LogNormalCDF(x float64) float64 {
	switch {
	case x > 0:
		return math.Log1p(-0.5 * math.Erfc(x/math.Sqrt2))
	case x > farTail:
		return math.Log(0.5 * math.Erfc(-x/math.Sqrt2))
	}
	return -0.5*x*x - HalfLog2Pi + logMills(x)
}

// farTail is the x below which the asymptotic series of Φ(x) is used.
const farTail = -35

// logMills returns the logarithm of Mills' ratio Φ(x)/φ(x) for x ≤ 0.
func logMills(x float64) float64 {
	if x > farTail {
		return LogNormalCDF(x) + 0.5*x*x + HalfLog2Pi
	}
	// Φ(x)/φ(x) ~ (1 − x⁻² + 3x⁻⁴ − 15x⁻⁶ + 105x⁻⁸)/|x|, with a relative error of 3e-13 at −35
	q := 1 / (x * x)
	return math.Log1p(q*(-1+q*(3+q*(-15+q*105)))) - math.Log(-x)
}

// logNormalRatio returns log Φ(x+d)/Φ(x) for moderate d. In the far tail, where both logarithms are huge, it
// subtracts their leading terms analytically.
func logNormalRatio(x, d float64) float64 {
	if min(x, x+d) > farTail || max(x, x+d) > 0 {
		return LogNormalCDF(x+d) - LogNormalCDF(x)
	}
	// ½x² − ½(x+d)² = −xd − ½d²
	return -x*d - 0.5*d*d + logMills(x+d) - logMills(x)
}

// LogPoisson returns log p(y|f) = y f − eᶠ − log y!, −Inf where eᶠ overflows.
func LogPoisson(y, f float64) float64 {
	rate := math.Exp(f)
	if math.IsInf(rate, 1) {
		return math.Inf(-1)
	}
	lg, _ := math.Lgamma(y + 1)
	if y == 0 { // f may be infinite
		return 0 - rate - lg
	}
	return y*f - rate - lg
}

// EntropyOf returns −Σ p log p in nats, with 0 log 0 = 0.
func EntropyOf(p []float64) float64 {
	h := 0.0
	for _, v := range p {
		if v > 0 {
			h -= v * math.Log(v)
		}
	}
	return max(h, 0)
}
