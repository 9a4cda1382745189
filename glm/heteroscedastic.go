package glm

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mathext"

	"github.com/funcgp/funcgp/glm/integral"
)

// Heteroscedastic is the likelihood y = μ + noise with a noise variance that depends on the input. A model of K
// targets has C = 2K outputs: first the K means μ, then the K logarithms of the noise variances, log σ². Given the
// outputs, the targets are independent.
//
// Λ is the Fisher information diag(1/σ², ½) of each target in place of −∂²log p/∂f², which is indefinite wherever y
// differs from μ. This has four consequences:
//
//   - A refit is Fisher scoring, which converges linearly and not quadratically as Newton's method does.
//   - The objective of a refit is not concave. It may have several modes, and the refit finds one of
//     them, uphill of θ*.
//   - No bound (E19) is known for the distance of an unfinished refit from a mode.
//   - Leave-one-out is one step of Fisher scoring, and the evidence is Laplace's with the Fisher
//     information in place of the Hessian.
//
// MeanTo writes the K means and then the K noise variances. Links and metrics, which expect C numbers, take these
// as the responses of the C outputs; only the first K predict targets. VarianceTo writes the K noise variances and
// then K zeros.
type Heteroscedastic struct{}

var (
	_ Likelihood        = Heteroscedastic{}
	_ Coupled           = Heteroscedastic{}
	_ CoupledQuantities = Heteroscedastic{}
)

// Name returns "heteroscedastic".
func (Heteroscedastic) Name() string { return "heteroscedastic" }

// Targets returns c/2. An odd c has no meaning; CheckY returns an error for it.
func (Heteroscedastic) Targets(c int) int { return c / 2 }

// CheckY accepts c/2 finite numbers. It returns an error for anything else, and where c is odd.
func (h Heteroscedastic) CheckY(y []float64, c int) error {
	if c%2 != 0 {
		return fmt.Errorf("glm: the heteroscedastic likelihood has a mean and a log variance for each target, and the model has %d outputs; it needs an even number", c)
	}
	return checkTargets(h, y, c, "a finite number", func(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) })
}

// checkEven returns the number of targets, c/2. It panics where c is odd.
func checkEven(c int) int {
	if c%2 != 0 {
		panic("glm: the heteroscedastic likelihood needs an even number of outputs")
	}
	return c / 2
}

// Expand returns log p(y|f) and writes r and Λ (E3). With d = y − μ, r is d/σ² for the mean and ½(d²/σ² − 1) for
// the log variance of each target, and Λ is the Fisher information diag(1/σ², ½). Nothing is clamped: where σ² is
// outside the range of a float64, log p is −Inf or NaN and Λ is infinite.
func (Heteroscedastic) Expand(residual, lambda, root, y, f []float64) (logp float64) {
	c := len(f)
	k := checkEven(c)
	checkSite(residual, lambda, root, y, c, k)
	clear(lambda)
	clear(root)
	for j, target := range y {
		s := f[k+j]
		precision := math.Exp(-s / 2) // 1/σ
		u := (target - f[j]) * precision
		// log p = −½d²/σ² − ½ log σ² − ½ log 2π
		logp -= u*u/2 + s/2 + integral.HalfLog2Pi
		if residual != nil {
			residual[j], residual[k+j] = u*precision, (u*u-1)/2
		}
		if lambda != nil {
			lambda[j*c+j], lambda[(k+j)*c+k+j] = math.Exp(-s), 0.5
		}
		if root != nil {
			root[j*c+j], root[(k+j)*c+k+j] = precision, math.Sqrt2/2
		}
	}
	return logp
}

// CurvatureTo writes −∂²log p/∂f², C×C row by row, as gp.Scored asks. With d = y − μ, its entries for each target
// are 1/σ² (mean), ½d²/σ² (log variance) and d/σ² (both).
func (Heteroscedastic) CurvatureTo(dst, y, f []float64) {
	c := len(f)
	k := checkEven(c)
	checkSite(nil, dst, nil, y, c, k)
	clear(dst)
	for j, target := range y {
		precision := math.Exp(-f[k+j] / 2)
		u := (target - f[j]) * precision
		dst[j*c+j], dst[(k+j)*c+k+j] = precision*precision, u*u/2
		dst[j*c+k+j], dst[(k+j)*c+j] = u*precision, u*precision
	}
}

// SlopeTo implements gp.Sloped: where log σ² changes by ds, Λ changes by dΛ = diag(−ds/σ², 0).
func (Heteroscedastic) SlopeTo(u, _, _, df []float64) {
	k := checkEven(len(u))
	for j := range k {
		u[j], u[k+j] = -df[k+j], 0
	}
}

// LogProb returns log p(y|f), summed over the targets.
func (h Heteroscedastic) LogProb(y, f []float64) float64 { return h.Expand(nil, nil, nil, y, f) }

// MeanTo writes the K means μ = E[y|f] and then the K noise variances σ².
func (Heteroscedastic) MeanTo(dst, f []float64) {
	checkDst(dst, f)
	k := checkEven(len(f))
	copy(dst[:k], f)
	for j := range k {
		dst[k+j] = math.Exp(f[k+j])
	}
}

// VarianceTo writes the K noise variances σ² = Var[y|f] and then K zeros.
func (Heteroscedastic) VarianceTo(dst, f []float64) {
	checkDst(dst, f)
	k := checkEven(len(f))
	for j := range k {
		dst[j], dst[k+j] = math.Exp(f[k+j]), 0
	}
}

// MomentsTo implements Coupled in closed form. The epistemic variance of a mean is the variance of μ, its aleatoric
// variance is E σ² = e^{m+v/2} for log σ² ~ N(m, v). The response σ² has the moments of a log-normal variable. A
// moment beyond the range of a float64 is +Inf.
func (Heteroscedastic) MomentsTo(mean, epistemic, aleatoric, f, cov []float64) {
	c := len(f)
	k := checkEven(c)
	for j := range k {
		s := k + j
		mean[j], epistemic[j] = f[j], cov[j*c+j]
		mean[s], epistemic[s], aleatoric[j] = Poisson{}.Moments(0, f[s], cov[s*c+s])
		aleatoric[s] = 0
	}
}

// LogMarginal returns log E[p(y|f)], summed over the targets. For each target it takes the covariance of μ and log
// σ², and integrates over log σ² alone, because μ is Gaussian given log σ².
func (Heteroscedastic) LogMarginal(y, f, cov []float64) (float64, error) {
	logp := 0.0
	for j, target := range y {
		p := newNoisyMean(j, f, cov)
		logp += p.logDensity(target)
	}
	return logp, nil
}

// logDensity returns the log density of the target at y by the trapezoidal rule over s = log σ². The integrand is
// an analytic function of s for |Im s| < π/2. Doubling the number of points therefore squares the error. Where 800
// points do not resolve the peak, it falls back to LogExpectation.
func (p *noisyMean) logDensity(y float64) float64 {
	h := func(s float64) float64 {
		mean, logVariance := p.given(s)
		d := y - mean
		if d == 0 {
			return -logVariance/2 - integral.HalfLog2Pi
		}
		// d²/v = (|d| e^{−½ log v})²
		u := math.Abs(d) * math.Exp(-logVariance/2)
		return -u*u/2 - logVariance/2 - integral.HalfLog2Pi
	}
	if p.v == 0 {
		return h(p.m)
	}
	const end, resolved, negligible, most = 12, 3e-6, 40, 800
	var q [most + 1]float64
	sd := math.Sqrt(p.v)
	n := 2 * int(math.Ceil(end*math.Max(2, 4*sd)))
	for ; n <= most; n *= 2 {
		step, top := 2*end/float64(n), 0
		for k := range n + 1 {
			z := -end + step*float64(k)
			if q[k] = h(p.m+sd*z) - z*z/2; q[k] > q[top] {
				top = k
			}
		}
		if top == 0 || top == n || q[top]-math.Max(q[0], q[n]) < negligible {
			break
		}
		even, odd := 0.0, 0.0
		for k := 0; k < n; k += 2 {
			even += math.Exp(q[k] - q[top])
			odd += math.Exp(q[k+1] - q[top])
		}
		// The sums over even and over odd points agree to 3e-6, so the sum over both is right to about 1e-11.
		if math.Abs(even-odd) <= resolved*(even+odd) {
			return q[top] + math.Log((even+odd)*step) - integral.HalfLog2Pi
		}
	}
	return integral.LogExpectation(h, p.m, p.v)
}

// CoupledCDF returns P(y ≤ at) for a target, with an error of about 1e-10.
func (Heteroscedastic) CoupledCDF(target int, at float64, f, cov []float64) float64 {
	p := newNoisyMean(target, f, cov)
	return min(max(integral.Expectation(func(s float64) float64 {
		mean, logVariance := p.given(s)
		return 0.5 * math.Erfc((mean-at)*math.Exp(-logVariance/2)/math.Sqrt2)
	}, p.m, p.v), 0), 1)
}

// CoupledQuantile returns the y with P(y' ≤ y) = p for a target, 0 < p < 1, by bisection. P(y' ≤ y) is right to
// about 1e-10.
func (h Heteroscedastic) CoupledQuantile(target int, p float64, f, cov []float64) float64 {
	q, k := newNoisyMean(target, f, cov), len(f)/2
	// For v = 0 the target is Gaussian and has a closed form. Otherwise a Gaussian quantile starts the bisection.
	_, logVariance := q.given(q.m)
	z, sd := mathext.NormalQuantile(p), math.Sqrt(cov[target*len(f)+target]+math.Exp(f[k+target]))
	if q.v == 0 {
		return f[target] + math.Exp(logVariance/2)*z
	}
	reaches := func(y float64) bool { return h.CoupledCDF(target, y, f, cov) >= p }
	lo, hi := f[target]+sd*z, f[target]+sd*z
	for step := sd / 4; reaches(lo) && !math.IsInf(lo, 0); step *= 2 {
		lo, hi = lo-step, lo
	}
	for step := sd / 4; !reaches(hi) && !math.IsInf(hi, 0); step *= 2 {
		lo, hi = hi, hi+step
	}
	for range 60 {
		mid := lo + (hi-lo)/2
		if !(lo < mid && mid < hi) {
			break
		}
		if reaches(mid) {
			hi = mid
		} else {
			lo = mid
		}
	}
	return hi
}

// A noisyMean is the distribution of one target where (μ, log σ²) is Gaussian: log σ² ~ N(m, v), and given log σ² =
// s the target is Gaussian.
type noisyMean struct {
	m, v  float64
	mean  float64 // mean of μ
	slope float64 // derivative of E[μ | s] in s
	rest  float64 // Var[μ | s]
}

func newNoisyMean(target int, f, cov []float64) noisyMean {
	c := len(f)
	s := checkEven(c) + target
	p := noisyMean{m: f[s], v: cov[s*c+s], mean: f[target], rest: cov[target*c+target]}
	if p.v > 0 {
		p.slope = cov[target*c+s] / p.v
		p.rest = max(0, p.rest-p.slope*cov[target*c+s])
	}
	return p
}

// given returns the mean and the logarithm of the variance of the target given log σ² = s.
func (p *noisyMean) given(s float64) (mean, logVariance float64) {
	mean = p.mean
	if p.slope != 0 {
		mean += p.slope * (s - p.m)
	}
	if p.rest == 0 {
		return mean, s
	}
	// log(rest + eˢ)
	log := math.Log(p.rest)
	return mean, math.Max(log, s) + math.Log1p(math.Exp(-math.Abs(log-s)))
}
