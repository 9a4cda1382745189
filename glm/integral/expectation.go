package integral

import (
	"math"
	"slices"
)

// Expectation returns E[g(f)] for f ~ N(m, v), v ≥ 0, by adaptive Clenshaw–Curtis quadrature (E11) [glm 13]. With
// the inverse link g it is the predictive mean of a response with one output. For v = 0 it returns g(m).
//
// Where |g| ≤ 1, as for a probability, the error is below 1e-10 for any m and v. For other g the error is below
// 1e-10 of E|g(f)|, if |g| grows no faster than e^{15|f|/√v}. g may have jumps and kinks. It may vary on the scale
// of √v anywhere, and on any scale from 1 up around f = 0, as the inverse links of logits and log rates do. A
// narrower feature far from 0, such as a peak of width √v/1000, can be missed.
//
// g is called at most 40,000 times, and about 500 times where it is smooth on the scale of √v. Where g returns NaN
// or Inf, so does Expectation. A negative variance panics.
func Expectation(g func(f float64) float64, m, v float64) float64 {
	if v < 0 {
		panic("integral: negative variance")
	}
	if v == 0 {
		return g(m)
	}
	x := newAxis(m, math.Sqrt(v))
	return integrate(x.breaks(), func(at float64) float64 {
		z := x.z(at)
		return math.Exp(-0.5*z*z-HalfLog2Pi) / x.unit * g(x.f(at))
	})
}

// LogExpectation returns log E[exp(h(f))] for f ~ N(m, v), v ≥ 0. With h = log p(y|f) it is the log predictive
// density of an example with one output (E11) in nats, without underflow where the density is below 1e-308. For v =
// 0 it returns h(m).
//
// h may be −Inf. Where h is concave, as log likelihoods of generalized linear models are, the error is below 1e-10
// of 1 + |result|. Otherwise this holds if h is as smooth as Expectation requires of g and has no second peak that
// matters outside m ± 12√v. h is called at most 45,000 times, and about 1,000 times where it is smooth. A negative
// variance panics.
func LogExpectation(h func(f float64) float64, m, v float64) float64 {
	if v < 0 {
		panic("integral: negative variance")
	}
	if v == 0 {
		return h(m)
	}
	x := newAxis(m, math.Sqrt(v))
	q := func(at float64) float64 {
		z := x.z(at)
		return h(x.f(at)) - 0.5*z*z
	}
	// Find the approximate maximum top of q and its place mode. q falls at least as fast as −½z².
	var mode float64
	var top float64
	mode, top = x.origin, math.Inf(-1)
	try := func(at float64) float64 {
		v := q(at)
		if !(v <= top) { // true for a NaN too
			mode, top = at, v
		}
		return v
	}
	points := x.breaks()
	for z := -12.0; z <= 12; z += 0.25 {
		points = append(points, x.at(z))
	}
	// Beyond ±12 double the step until q falls.
	for _, sign := range [2]float64{1, -1} {
		before := q(x.at(12 * sign))
		for z := 24.0; z < 1e154; z *= 2 {
			points = append(points, x.at(sign*z))
			v := q(x.at(sign * z))
			if v < before {
				break
			}
			before = v
		}
	}
	slices.Sort(points)
	for _, at := range points {
		try(at)
	}
	// golden-section search between the neighbours of the best point
	k, _ := slices.BinarySearch(points, mode)
	a, b := points[max(k-1, 0)], points[min(k+1, len(points)-1)]
	const ratio = 0.61803398874989484820
	for range 100 {
		c, d := b-ratio*(b-a), a+ratio*(b-a)
		if !(a < c && c < d && d < b) {
			break
		}
		if try(c) >= try(d) {
			b = d
		} else {
			a = c
		}
	}
	if math.IsNaN(top) || math.IsInf(top, 0) {
		return top
	}
	// Break the interval at the edges of the peak, which may be far narrower than √v and far from m.
	left, right := x.edgeOf(q, mode, top, -1), x.edgeOf(q, mode, top, 1)
	breaks := x.breaks()
	for k := range 17 {
		t := float64(k) / 16
		breaks = append(breaks, mode+t*(left-mode), mode+t*(right-mode))
	}
	// Where q is huge, its rounding error can lift it far above top: bound the exponent.
	mass := integrate(breaks, func(at float64) float64 { return math.Exp(min(q(at)-top, 300)) })
	// A peak narrower than the spacing of float64 numbers has the one point mode: it counts with that width.
	spacing := math.Nextafter(math.Abs(mode), math.Inf(1)) - math.Abs(mode)
	return top - HalfLog2Pi + math.Log(max(mass, spacing)/x.unit)
}

// An axis is the variable of integration. It is f itself where f = 0 may matter and √v > 1; then f has all its
// digits near 0. Otherwise it is z = (f−m)/√v.
type axis struct {
	m, s         float64
	origin, unit float64 // the variable at z = 0, and its change per unit of z
	isF          bool    // whether the variable is f
}

func newAxis(m, s float64) axis {
	if s > 1 && math.Abs(m) < 1e6*s {
		return axis{m, s, m, s, true}
	}
	return axis{m, s, 0, 1, false}
}

func (x axis) f(at float64) float64 {
	if x.isF {
		return at
	}
	return x.m + x.s*at
}

func (x axis) z(at float64) float64 { return (at - x.origin) / x.unit }

// at returns the variable of integration for z.
func (x axis) at(z float64) float64 { return x.origin + z*x.unit }

// zEnd is the |z| at which the integral ends: the density of N(0, 1) is below 1e-170 there. A factor e^{15z} moves
// the mode to z = 15, which leaves 13 standard deviations.
const zEnd = 28

// breaks returns the points that divide the range into the first panels. Between them an integrand is taken to be
// smooth at first.
func (x axis) breaks() []float64 {
	var breaks []float64
	for z := -12.0; z <= 12; z++ {
		breaks = append(breaks, x.at(z))
	}
	for z := 16.0; z <= zEnd; z += 4 {
		breaks = append(breaks, x.at(-z), x.at(z))
	}
	if !x.isF {
		return breaks
	}
	// f = 0, ±1, ±4, ±16 …, for features around f = 0 on any scale
	for f := 0.0; f < 12*x.s; f = nextScale(f) {
		for _, f := range [2]float64{f, -f} {
			if math.Abs(x.z(f)) < 12 {
				breaks = append(breaks, f)
			}
		}
	}
	return breaks
}

// nextScale returns the next larger |f| in breaks.
func nextScale(f float64) float64 {
	switch {
	case f < 1:
		return 1
	case f < 1024:
		return 4 * f
	}
	return 32 * f
}

// edgeOf returns a point at which q is at least 45 below top, on the side of the mode that sign gives. It is at
// most about twice as far from the mode as the nearest such point.
func (x axis) edgeOf(q func(at float64) float64, mode, top, sign float64) float64 {
	const below = 45
	low := func(step float64) bool { return !(q(mode+sign*step) >= top-below) }
	step := x.unit
	if !low(step) {
		for range 1100 {
			if step *= 2; low(step) {
				break
			}
		}
		return mode + sign*step
	}
	for range 1100 {
		half := step / 2
		if mode+half == mode || !low(half) {
			break
		}
		step = half
	}
	return mode + sign*step
}

// A panel is an interval with its integral, the integral of |g| and an estimate of the error.
type panel struct{ a, b, value, abs, err float64 }

const (
	// splits is the most divisions of a panel by integrate.
	splits = 1000
	// quadratureTol is the error that integrate aims at, relative to ∫|g|.
	quadratureTol = 1e-12
)

// integrate returns ∫ g from the smallest to the largest of the breaks by adaptive quadrature. It divides the panel
// with the largest error in two until the errors add up to at most quadratureTol of ∫|g|, or splits divisions are
// made. The order of the sums is fixed, so the result is reproducible.
func integrate(breaks []float64, g func(x float64) float64) float64 {
	for i, x := range breaks {
		breaks[i] = min(max(x, -math.MaxFloat64), math.MaxFloat64)
	}
	slices.Sort(breaks)
	breaks = slices.Compact(breaks)
	panels := make([]panel, 0, len(breaks)+splits)
	for i := 1; i < len(breaks); i++ {
		panels = append(panels, clenshawCurtis(g, breaks[i-1], breaks[i]))
	}
	for range splits {
		worst, abs, err := 0, 0.0, 0.0
		for i, p := range panels {
			abs += p.abs
			err += p.err
			if p.err > panels[worst].err {
				worst = i
			}
		}
		p := panels[worst]
		mid := p.a + (p.b/2 - p.a/2)
		if !(err > quadratureTol*abs) || math.IsInf(abs, 1) {
			break
		}
		if mid <= p.a || mid >= p.b { // no float64 lies between a and b
			panels[worst].err = 0
			continue
		}
		panels[worst] = clenshawCurtis(g, p.a, mid)
		panels = append(panels, clenshawCurtis(g, mid, p.b))
	}
	sum := 0.0
	for _, p := range panels {
		sum += p.value
	}
	return sum
}

// ccPoints is the number of intervals between the nodes of the finer rule.
const ccPoints = 16

// Nodes on [−1, 1] and weights of the Clenshaw–Curtis rule with 17 points, and the weights of the coarser rule,
// whose 9 points are every second node.
var (
	ccNodes  = clenshawCurtisNodes()
	ccFine   = clenshawCurtisWeights(ccPoints)
	ccCoarse = clenshawCurtisWeights(ccPoints / 2)
)

func clenshawCurtisNodes() (x [ccPoints + 1]float64) {
	for k := range x {
		// cos πk/n as a sine, so that the nodes are symmetric
		x[k] = math.Sin(math.Pi * float64(2*k-ccPoints) / (2 * ccPoints))
	}
	return x
}

// clenshawCurtisWeights returns the weights of n+1 points, n even:
// w_k = c_k/n (1 − Σ_{j=1}^{n/2} b_j/(4j²−1) cos 2πjk/n), where c_k is 1 at the ends
// and 2 elsewhere, and b_j is 1 at j = n/2 and 2 elsewhere.
func clenshawCurtisWeights(n int) []float64 {
	w := make([]float64, n+1)
	for k := range w {
		sum := 1.0
		for j := 1; j <= n/2; j++ {
			b := 2.0
			if j == n/2 {
				b = 1
			}
			sum -= b / float64(4*j*j-1) * math.Cos(2*math.Pi*float64(j*k%n)/float64(n))
		}
		w[k] = 2 * sum / float64(n)
		if k == 0 || k == n {
			w[k] /= 2
		}
	}
	return w
}

// clenshawCurtis applies both rules to one panel. The error estimate is their difference, which is much larger than
// the error of the finer rule where g is smooth. The ends of the panel are nodes, so the estimate sees a jump of g
// anywhere in the panel.
func clenshawCurtis(g func(x float64) float64, a, b float64) panel {
	half := b/2 - a/2
	mid := a + half
	p := panel{a: a, b: b}
	coarse := 0.0
	for k, x := range ccNodes {
		v := g(mid + half*x)
		p.value += ccFine[k] * v
		p.abs += ccFine[k] * math.Abs(v)
		if k%2 == 0 {
			coarse += ccCoarse[k/2] * v
		}
	}
	p.err = half * math.Abs(p.value-coarse)
	p.value *= half
	p.abs *= half
	return p
}
