package integral

import (
	"math"

	"github.com/funcgp/funcgp/internal/logsum"
	"github.com/funcgp/funcgp/internal/vector"
)

// Integrals of σ and of the Poisson likelihood over N(m, s²) (E11), by the trapezoidal rule, which converges
// exponentially for integrands that are analytic in a strip. The nearest poles of σ(m + sz) are at |Im z| = π/s, so
// a step of 0.5/s leaves an error of e^{−2π·2π} = 7e-18. A step of 0.06 is enough up to s = 8.
//
// A larger s would need ever smaller steps. There the integral is taken by parts, E σ(f) = ∫ σ'(u) Φ((m−u)/s) du.
// The width of σ' does not depend on s, so a step of 0.5 over [−40, 40] leaves the same error for every s.
const (
	zStep = 0.06
	uEnd  = 40.0
	uStep = 0.5
	wide  = 8.0 // the largest s without integration by parts
	// exp(−eᶠ) is small only for |Im f| < π/2, half the distance of the poles of σ: rateStep is half uStep.
	rateStep = 0.25
)

// SigmoidMoments returns E σ(f), Var σ(f) and E[σ(f)σ(−f)] for f ~ N(m, s²).
func SigmoidMoments(m, s float64) (mean, variance, slope float64) {
	switch {
	case s == 0:
		return Sigmoid(m), 0, SigmoidSlope(m)
	case s <= wide:
		return sigmoidMomentsZ(m, s)
	}
	return sigmoidMomentsU(m, s)
}

// zNodes are the nodes of a grid on [−12, 12] with Gaussian weights that sum to 1.
var zNodes = func() (nodes [401]struct{ z, w float64 }) {
	norm := 0.0
	for k := range nodes {
		z := float64(k-len(nodes)/2) * zStep
		nodes[k].z, nodes[k].w = z, math.Exp(-0.5*z*z)
		norm += nodes[k].w
	}
	for k := range nodes {
		nodes[k].w /= norm
	}
	return nodes
}()

// sigmoidMomentsZ sums over z in [−12, 12], for s ≤ wide. For s up to 4, 2 or 1 it takes every second, fourth or
// eighth node, which leaves a step of at most 0.48/s.
func sigmoidMomentsZ(m, s float64) (mean, variance, slope float64) {
	var f, p, e [len(zNodes)]float64
	stride := 1
	for float64(2*stride)*s <= wide && stride < 8 {
		stride *= 2
	}
	weight, n := float64(stride), 0
	for k := 0; k < len(zNodes); k += stride {
		f[n] = m + s*zNodes[k].z
		e[n] = -math.Abs(f[n])
		n++
	}
	vector.Exp(e[:n], e[:n])
	for i, e := range e[:n] {
		w := weight * zNodes[i*stride].w
		p[i] = 1 / (1 + e)
		// E σ' = Σ w(z) σ'(m + s z)
		slope += w * e * p[i] * p[i]
		if f[i] < 0 {
			p[i] *= e
		}
		// E σ = Σ w(z) σ(m + s z)
		mean += w * p[i]
	}
	for i, p := range p[:n] {
		// Var σ = Σ w(z) (σ − E σ)², centred so that a small s keeps its digits
		d := p - mean
		variance += weight * zNodes[i*stride].w * d * d
	}
	return min(mean, 1), variance, slope // the weights sum to 1 up to rounding
}

// sigmoidMomentsU integrates by parts over u in [−40, 40], for s > wide. The integral of σ' outside is 1e-17.
func sigmoidMomentsU(m, s float64) (mean, variance, slope float64) {
	n := int(math.Round(uEnd / uStep))
	above, norm := 0.0, 0.0
	for k := -n; k <= n; k++ {
		u := float64(k) * uStep
		w, x := SigmoidSlope(u), (m-u)/s
		// E σ = Σ σ'(u) Φ(x), 1 − E σ = Σ σ'(u) Φ(−x), E σ' = Σ σ'(u) φ(x)/s
		mean += w * 0.5 * math.Erfc(-x/math.Sqrt2)
		above += w * 0.5 * math.Erfc(x/math.Sqrt2)
		slope += w * math.Exp(-0.5*x*x-HalfLog2Pi) / s
		norm += w
	}
	mean, above, slope = mean/norm, above/norm, slope/norm
	// Var σ = E σ (1 − E σ) − E[σ(1−σ)]
	return min(mean, 1), math.Max(mean*above-slope, 0), slope
}

// LogMeanSigmoid returns log E σ(f) for f ~ N(m, s²), with full relative precision even where E σ underflows.
func LogMeanSigmoid(m, s float64) float64 {
	if s == 0 {
		return LogSigmoid(m)
	}
	return min(logMeanSigmoidOf(m, s), 0) // a sum of weights may round above 1
}

func logMeanSigmoidOf(m, s float64) float64 {
	tilt := 0.0
	if m < -0.5*s*s {
		// E σ(f) = e^{m+s²/2} E σ(−f') with f' ~ N(m + s², s²)
		tilt = m + 0.5*s*s
		m = -(m + s*s)
	}
	if s <= wide {
		return tilt + math.Log(meanSigmoidZ(m, s))
	}
	// E σ = Φ(m/s) ∫ σ'(u) Φ((m−u)/s)/Φ(m/s) du. The ratio is at most e^{|u|/2},
	// because m ≥ −s²/2.
	x := m / s
	if x > nearTail {
		return tilt + math.Log(meanSigmoidU(x, s))
	}
	return tilt + LogNormalCDF(x) + logTrapezoid(uStep, func(u float64) float64 {
		return LogSigmoid(u) + LogSigmoid(-u) + logNormalRatio(x, -u/s)
	})
}

// gaussian has gaussianStep times the standard normal density at the multiples of gaussianStep, down to e⁻⁵⁵.
var gaussian = func() (w [169]float64) {
	for k := range w {
		z := float64(k) * gaussianStep
		w[k] = gaussianStep * math.Exp(-0.5*z*z-HalfLog2Pi)
	}
	return w
}()

const gaussianStep = 0.0625

// meanSigmoidZ returns E σ(f) for s ≤ wide and m ≥ −½s², by the trapezoidal rule over |z| ≤ 10.5. The step is 1, 2, 4
// or 8 times gaussianStep, the largest with step·s ≤ 0.5. The integrand is largest at some z ≤ s/2, so the range is
// wide enough. No term cancels another.
func meanSigmoidZ(m, s float64) float64 {
	// The Gaussian alone needs no step below 0.5, which leaves an error of e⁻⁷⁸.
	stride := 8
	for ; stride > 1 && float64(stride)*gaussianStep*s > 0.5; stride /= 2 {
	}
	var e [len(gaussian)]float64
	n := 0
	for k := 0; k < len(gaussian); k += stride {
		e[n] = -s * float64(k) * gaussianStep
		n++
	}
	vector.Exp(e[:n], e[:n])
	// With d = s z and a = e⁻ᵐ, σ(m + d) + σ(m − d) = 1/(1 + a e⁻ᵈ) + e⁻ᵈ/(e⁻ᵈ + a).
	a := math.Exp(-m)
	sum := gaussian[0] / (1 + a)
	for i, e := range e[1:n] {
		sum += gaussian[(i+1)*stride] * (1/(1+a*e) + e/(e+a))
	}
	return float64(stride) * sum
}

// slopes has uStep·σ' at the multiples of uStep, down to e⁻⁴⁵.
var slopes = func() (w [91]float64) {
	for k := range w {
		w[k] = uStep * SigmoidSlope(float64(k)*uStep)
	}
	return w
}()

// nearTail is the x with Φ(x) = e^{−6.6}. For x above it, Φ(x − u/s) is at most e^{6.6} Φ(x).
const nearTail = -3

// meanSigmoidU returns E σ(f) = Σ σ'(u) Φ(x − u/s) for f ~ N(xs, s²), s > wide and
// x > nearTail.
func meanSigmoidU(x, s float64) float64 {
	normalCDF := func(x float64) float64 { return 0.5 * math.Erfc(-x/math.Sqrt2) }
	sum := slopes[0] * normalCDF(x)
	for k := 1; k < len(slopes); k++ {
		d := float64(k) * uStep / s
		sum += slopes[k] * (normalCDF(x-d) + normalCDF(x+d))
	}
	return sum
}

// LogMeanPoisson returns log E[p(y|f)] for f ~ N(m, s²), and −Inf where the result is outside the range of a
// float64. It integrates over t = z − z*, where z* = (f−m)/s = s(y − rate) at the mode f of the integrand and rate
// = eᶠ there:
//
//	log p(y|f) − ½z² = log p(y|mode) − ½z*² − rate (eˢᵗ − 1 − st) − ½t²,
//
// No large terms cancel in it.
func LogMeanPoisson(y, m, s float64) float64 {
	if s == 0 {
		return LogPoisson(y, m)
	}
	mode := poissonMode(y, m, s)
	rate := math.Exp(mode)
	switch {
	case math.IsInf(rate, 1):
		return math.Inf(-1) // the result is below −1e308
	case s > wide && rate < 0.05:
		return logMeanRarePoisson(y, m, s)
	}
	z := (mode - m) / s
	if s < 1 { // the same, where the difference would cancel
		z = s * (y - rate)
	}
	// In t the curvature at the mode is 1 + s² rate.
	step := min(0.5/math.Hypot(1, s*math.Sqrt(rate)), rateStep/s)
	return min(0, LogPoisson(y, mode)-0.5*z*z-HalfLog2Pi+logTrapezoid(step, func(t float64) float64 {
		return -rate*expm2(s*t) - 0.5*t*t
	}))
}

// poissonMode returns the f that maximizes log p(y|f) − ½(f−m)²/s².
func poissonMode(y, m, s float64) float64 {
	// w = s² eᶠ solves w + log w = m + ys² + log s².
	logS2 := 2 * math.Log(s)
	x := m + y*s*s + logS2
	if x > 1e300 {
		return math.Log(y + m/s/s) // log w is negligible here, and w may overflow
	}
	// Solve w + log w = x for v = log w, by Newton steps from the right, where they descend monotonically.
	v := x
	if x > 1 {
		v = math.Log(x)
	}
	for range 50 {
		e := math.Exp(v)
		step := (e + v - x) / (e + 1)
		v -= step
		if math.Abs(step) <= 1e-14*(1+math.Abs(v)) {
			break
		}
	}
	return v - logS2
}

// logMeanRarePoisson is LogMeanPoisson for a large s and a rate at the mode that is so small that the integrand is
// flat on one side. It absorbs eʸᶠ in the Gaussian, which moves its mean to m' = m + ys², and integrates the rest
// by parts: E exp(−eᶠ) = ∫ e^{u−eᵘ} Φ((u−m')/s) du.
func logMeanRarePoisson(y, m, s float64) float64 {
	lg, _ := math.Lgamma(y + 1)
	x := -(m + y*s*s) / s
	return min(0, y*(m+0.5*y*s*s)-lg+LogNormalCDF(x)+logTrapezoid(rateStep, func(u float64) float64 {
		return u - math.Exp(u) + logNormalRatio(x, u/s)
	}))
}

// expm2 returns eˣ − 1 − x to full relative precision.
func expm2(x float64) float64 {
	if math.Abs(x) > 0.5 {
		return math.Expm1(x) - x
	}
	sum, term := 0.0, x
	for k := 2.0; k < 18; k++ {
		term *= x / k
		sum += term
	}
	return sum
}

// trapezoidSteps is the most steps of logTrapezoid on either side. Its callers need at most 3,600.
const trapezoidSteps = 4096

// logTrapezoid returns log ∫ e^{g} by the trapezoidal rule on the multiples of step. g must be concave, with its
// mode within a few dozen steps of zero. The sum runs in both directions until g is 45 below its largest value
// (e⁻⁴⁵ = 3e-20).
func logTrapezoid(step float64, g func(float64) float64) float64 {
	const below = 45
	sum := logsum.New()
	sum.Add(g(0))
	for _, h := range [2]float64{step, -step} {
		for k := 1; k <= trapezoidSteps; k++ {
			v := g(float64(k) * h)
			sum.Add(v)
			if !(v >= sum.Max-below) {
				break
			}
		}
	}
	return sum.Value() + math.Log(step)
}

// MeanBinaryEntropy returns E h(σ(f)) in nats for f ~ N(m, s²), where h(σ(f)) = log(1+eᶠ) − f σ(f) is the entropy
// of a Bernoulli variable.
func MeanBinaryEntropy(m, s float64) float64 {
	if s == 0 {
		return binaryEntropy(m)
	}
	sum := 0.0
	if s <= wide {
		for _, n := range zNodes {
			sum += n.w * binaryEntropy(m+s*n.z)
		}
		return sum
	}
	// A large s: integrate over u, on which h has a width of its own: ∫ h(u) φ((u−m)/s)/s du.
	n := int(math.Round(uEnd / uStep))
	for k := -n; k <= n; k++ {
		u := float64(k) * uStep
		x := (u - m) / s
		sum += binaryEntropy(u) * math.Exp(-0.5*x*x-HalfLog2Pi)
	}
	return sum * uStep / s
}

// binaryEntropy returns the entropy of a Bernoulli variable with logit f, in nats.
func binaryEntropy(f float64) float64 {
	f = math.Abs(f) // even in f
	e := math.Exp(-f)
	return math.Log1p(e) + f*e/(1+e)
}

// SigmoidSlopes are log E σ(f) for f ~ N(m, s²) and its first and second derivatives in m and s.
type SigmoidSlopes struct{ Value, M, S, MM, MS, SS float64 }

// LogMeanSigmoidSlopes returns LogMeanSigmoid with its derivatives. Each derivative of E σ is the same sum over
// nodes as E σ itself, with the derivative of each node's term.
func LogMeanSigmoidSlopes(m, s float64) SigmoidSlopes {
	switch {
	case s == 0:
		p, q := Sigmoid(m), Sigmoid(-m)
		return SigmoidSlopes{Value: LogSigmoid(m), M: q, MM: -p * q}
	case m < -0.5*s*s:
		// E σ(f) = e^{m+s²/2} E σ(−f') with f' ~ N(m + s², s²)
		g := LogMeanSigmoidSlopes(-(m + s*s), s)
		return SigmoidSlopes{
			Value: m + 0.5*s*s + g.Value, M: 1 - g.M, S: s - 2*s*g.M + g.S,
			MM: g.MM, MS: 2*s*g.MM - g.MS, SS: 1 - 2*g.M + 4*s*(s*g.MM-g.MS) + g.SS,
		}
	case s <= wide:
		return sigmoidSlopesZ(m, s)
	}
	return sigmoidSlopesU(m, s)
}

// add adds a node to sums for E σ and its derivatives. w is the node's term in E σ; d has the first derivatives of
// log w, and the second derivatives of w divided by w.
func (g *SigmoidSlopes) add(w float64, d SigmoidSlopes) {
	g.Value += w
	g.M += w * d.M
	g.S += w * d.S
	g.MM += w * d.MM
	g.MS += w * d.MS
	g.SS += w * d.SS
}

// logarithm turns the sums for E σ and its derivatives into log E σ and its derivatives.
func (g *SigmoidSlopes) logarithm() {
	w := 1 / g.Value
	g.Value, g.M, g.S = math.Log(g.Value), w*g.M, w*g.S
	g.MM = w*g.MM - g.M*g.M
	g.MS = w*g.MS - g.M*g.S
	g.SS = w*g.SS - g.S*g.S
}

// sigmoidSlopesZ sums over the nodes of meanSigmoidZ: terms σ(m + sz).
func sigmoidSlopesZ(m, s float64) (g SigmoidSlopes) {
	stride := 8
	for ; stride > 1 && float64(stride)*gaussianStep*s > 0.5; stride /= 2 {
	}
	for k := 0; k < len(gaussian); k += stride {
		for _, sign := range [2]float64{1, -1} {
			z := sign * float64(k) * gaussianStep
			p, q := Sigmoid(m+s*z), Sigmoid(-m-s*z)
			// σ'/σ = q and σ''/σ = q(q − p)
			c := q * (q - p)
			if g.add(float64(stride)*gaussian[k]*p, SigmoidSlopes{M: q, S: z * q, MM: c, MS: z * c, SS: z * z * c}); k == 0 {
				break
			}
		}
	}
	g.logarithm()
	return g
}

// sigmoidSlopesU sums by parts: terms σ'(u) Φ(x) with x = (m − u)/s, relative to Φ(m/s).
func sigmoidSlopesU(m, s float64) (g SigmoidSlopes) {
	for k := range slopes {
		for _, sign := range [2]float64{1, -1} {
			u := sign * float64(k) * uStep
			x := (m - u) / s
			// h = φ(x)/Φ(x)
			var h float64
			if x > farTail {
				h = math.Exp(-0.5*x*x - HalfLog2Pi - LogNormalCDF(x))
			} else {
				h = math.Exp(-logMills(x))
			}
			d := SigmoidSlopes{M: h / s, S: -x * h / s, MM: -x * h / (s * s), MS: (x*x - 1) * h / (s * s), SS: x * (2 - x*x) * h / (s * s)}
			if g.add(slopes[k]*math.Exp(logNormalRatio(m/s, -u/s)), d); k == 0 {
				break
			}
		}
	}
	g.logarithm()
	g.Value += LogNormalCDF(m / s)
	return g
}
