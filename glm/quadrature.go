package glm

import (
	"math"
	"slices"
)

// A panel is an interval with its integral and an estimate of the error.
type panel struct{ a, b, value, abs, err float64 }

const (
	// splits bounds how often integrate divides a panel in two.
	splits = 1000
	// quadratureTol is the error that integrate aims at, as a part of ∫|g|.
	quadratureTol = 1e-12
)

// integrate returns ∫ g from the smallest to the largest of the breaks by
// adaptive quadrature. It divides the panel with the largest error until the
// errors add up to at most quadratureTol of ∫|g|, but no more than splits times.
// The order of the sums is fixed.
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

// ccPoints is the number of intervals between the nodes of the rule.
const ccPoints = 16

// Nodes on [−1, 1] and weights of the Clenshaw–Curtis rule of 17 points, and
// the weights of the rule of 9 points, which are every second of them.
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

// clenshawCurtis applies the rule to one panel. The error estimate is the
// difference between the two rules, which far exceeds the error of the finer rule
// where g is smooth. The ends are nodes, so that the estimate sees a jump of g
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
