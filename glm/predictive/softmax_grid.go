package predictive

import (
	"math"

	"github.com/funcgp/funcgp/glm/integral"
)

// The tensor trapezoid for a rank up to 3 (E11). Along column k of A two logits
// move apart by at most reach·z. Their exponentials cancel nowhere in the strip
// |Im z| < d = π/reach, so that a step of h leaves an error of e^{d²/2 − 2πd/h}. The
// step is chosen for e⁻²⁶ = 5e-12, and is never larger than the Gaussian itself allows.
const (
	gridRank     = 3
	gridExponent = 26.0
	gridRadius   = 7.2     // nodes lie in |z| ≤ 7.2, which leaves out 3e-11
	gridNodes    = 1 << 22 // more nodes than that take too long
)

// gridStep returns the step for a column.
func gridStep(reach float64) float64 {
	d := min(math.Pi/reach, math.Sqrt(2*gridExponent))
	return 2 * math.Pi * d / (gridExponent + d*d/2)
}

// A softmaxGrid is a tensor trapezoid.
type softmaxGrid struct {
	row     *softmaxRow
	root    float64   // √s: the covariance is s·AAᵀ
	centre  []float64 // m + √s A z0
	z0      []float64
	steps   []float64
	scratch []float64 // logits of each level
	visit   func(l []float64, tilt, w float64, n int)
}

// grid returns the trapezoid for s·AAᵀ, root = √s, around the logits centre at z0, or
// nil where it has more than the given number of nodes.
func (r *softmaxRow) grid(root, most float64) *softmaxGrid {
	if r.rank > gridRank {
		return nil
	}
	g := &softmaxGrid{row: r, root: root, centre: r.m, z0: make([]float64, r.rank), steps: make([]float64, r.rank)}
	nodes := 1.0
	for k := range g.steps {
		g.steps[k] = gridStep(root * r.reach(k))
		nodes *= 2*gridRadius/g.steps[k] + 1
	}
	switch r.rank { // the ball's share of the cube
	case 2:
		nodes *= math.Pi / 4
	case 3:
		nodes *= math.Pi / 6
	}
	if !(nodes <= most) {
		return nil
	}
	g.scratch = make([]float64, r.c*(r.rank+1))
	return g
}

// each passes every line of nodes along column 0 of A to visit: the logits at its
// middle, z0·z and e^{−½|z|²} there, and the number n of nodes to either side. It
// may overwrite the logits. The nodes are f = centre + √s A z.
func (g *softmaxGrid) each(visit func(l []float64, tilt, w float64, n int)) {
	g.visit = visit
	copy(g.scratch, g.centre)
	g.level(g.row.rank-1, gridRadius*gridRadius, 0, 1)
}

func (g *softmaxGrid) level(k int, left, tilt, w float64) {
	c, rank := g.row.c, g.row.rank
	from := g.scratch[(rank-1-k)*c:][:c]
	n := int(math.Sqrt(left) / g.steps[k])
	if k == 0 {
		g.visit(from, tilt, w, n)
		return
	}
	to := g.scratch[(rank-k)*c:][:c]
	for i := -n; i <= n; i++ {
		z := float64(i) * g.steps[k]
		for j, v := range from {
			to[j] = v + g.root*z*g.row.a[j*rank+k]
		}
		g.level(k-1, left-z*z, tilt+z*g.z0[k], w*math.Exp(-0.5*z*z))
	}
}

// A softmaxLine has what all lines of a grid share, by the position of a node
// from −n to n: its weight and the factors of the exponentials of the logits.
type softmaxLine struct {
	middle  int
	weights []float64 // e^{−½z²}
	tilts   []float64 // e^{−z0·z}
	factors []float64 // e^{√s A z}, positions×C
}

// line returns the factors, or nil where they might overflow.
func (g *softmaxGrid) line() *softmaxLine {
	const overflow = 300
	r := g.row
	tilt := 0.0
	for _, z := range g.z0 {
		tilt += math.Abs(z) * gridRadius
	}
	if g.root*r.reach(0)*gridRadius > overflow || tilt > overflow {
		return nil
	}
	h := g.steps[0]
	n := int(gridRadius / h)
	s := &softmaxLine{middle: n, weights: make([]float64, 2*n+1), tilts: make([]float64, 2*n+1), factors: make([]float64, (2*n+1)*r.c)}
	for i := range s.weights {
		z := float64(i-n) * h
		s.weights[i], s.tilts[i] = math.Exp(-0.5*z*z), math.Exp(-z*g.z0[0])
		for j := range r.c {
			s.factors[i*r.c+j] = math.Exp(g.root * z * r.a[j*r.rank])
		}
	}
	return s
}

// expTo overwrites logits with e^{l − max l} and returns the maximum.
func expTo(l []float64) (top float64) {
	top = l[integral.Argmax(l)]
	for j, v := range l {
		l[j] = math.Exp(v - top)
	}
	return top
}

// logMean returns log E exp(log p_y(z0+u) − log p_y(z0) − z0·u) for u ~ N(0, I), where
// centre holds the logits at z0, and top is log p_y there.
func (g *softmaxGrid) logMean(centre, z0 []float64, y int, top float64) float64 {
	g.centre, g.z0 = centre, z0
	r, sum, weight := g.row, 0.0, 0.0
	c := r.c
	line := g.line()
	if line == nil || top < -300 {
		// Exponentials may overflow: take the logarithm at each node.
		r, sum, weight := g.row, 0.0, 0.0
		at := make([]float64, r.c)
		g.each(func(l []float64, tilt, w float64, n int) {
			for i := -n; i <= n; i++ {
				z := float64(i) * g.steps[0]
				for j, v := range l {
					at[j] = v + g.root*z*r.a[j*r.rank]
				}
				p := w * math.Exp(-0.5*z*z)
				weight += p
				sum += p * math.Exp(logSoftmaxAt(at, y)-top-tilt-z*g.z0[0])
			}
		})
		return math.Log(sum / weight)
	}
	scale := math.Exp(-top)
	g.each(func(l []float64, tilt, w float64, n int) {
		expTo(l)
		part, all := 0.0, 0.0
		for i := line.middle - n; i <= line.middle+n; i++ {
			total := 0.0
			factors := line.factors[i*c : (i+1)*c]
			for j, e := range l {
				total += e * factors[j]
			}
			all += line.weights[i]
			part += line.weights[i] * line.tilts[i] * (l[y] * factors[y] / total)
		}
		weight += w * all
		sum += w * math.Exp(-tilt) * scale * part
	})
	return math.Log(sum / weight)
}

// gridMoments integrates by the trapezoid; nil where it is too large.
func (r *softmaxRow) gridMoments(wants softmaxWants) *softmaxMoments {
	s := newSoftmaxSums(r.base, wants)
	if r.rank == 0 {
		s.add(append([]float64(nil), r.m...), 1)
		m := r.moments(s)
		m.nodes, m.err = 1, m.err+gridError
		return m
	}
	g := r.grid(1, gridNodes)
	if g == nil {
		return nil
	}
	line := g.line()
	if line == nil {
		return nil
	}
	nodes, c, p := 0, r.c, make([]float64, r.c)
	entropy := &lineEntropy{grid: g, line: line, from: make([]float64, c), mass: make([]float64, c), moment: make([]float64, c), totals: make([]float64, len(line.weights))}
	g.each(func(l []float64, _, w float64, n int) {
		nodes += 2*n + 1
		if wants.entropy {
			// Take the logits at the middle of a line.
			copy(entropy.from, l)
			fromTop(entropy.from)
			clear(entropy.mass)
			clear(entropy.moment)
		}
		expTo(l)
		for i := line.middle - n; i <= line.middle+n; i++ {
			total, factors := 0.0, line.factors[i*c:(i+1)*c]
			for j, e := range l {
				p[j] = e * factors[j]
				total += p[j]
			}
			inverse := 1 / total
			for j := range p {
				p[j] *= inverse
			}
			s.addProbabilities(p, w*line.weights[i], 0)
			if wants.entropy {
				entropy.add(i, p, total)
			}
		}
		if wants.entropy {
			s.entropy += w * entropy.end(n)
		}
	})
	m := r.moments(s)
	m.nodes, m.err = nodes, m.err+gridError
	return m
}

// A lineEntropy sums the entropies of the nodes of a line, H = log Σ eˡ − Σ p l. The
// logits are l_j = b_j + √s z a_j, so that the sum of w p l over the nodes takes the sums of
// w p and of w z p. The nodes at z and −z have one weight, and one logarithm.
type lineEntropy struct {
	grid         *softmaxGrid
	line         *softmaxLine
	from         []float64 // b, whose largest is 0
	mass, moment []float64 // Σ w p and Σ w z p
	totals       []float64 // Σ eˡ of each node
}

// add takes the probabilities of a node.
func (e *lineEntropy) add(i int, p []float64, total float64) {
	e.totals[i] = total
	w := e.line.weights[i]
	wz := w * float64(i-e.line.middle) * e.grid.steps[0]
	mass, moment := e.mass[:len(p)], e.moment[:len(p)]
	for j, v := range p {
		mass[j] += w * v
		moment[j] += wz * v
	}
}

// end returns the sum over a line of n nodes to either side.
func (e *lineEntropy) end(n int) float64 {
	middle, w, r := e.line.middle, e.line.weights, e.grid.row
	h := w[middle] * math.Log(e.totals[middle])
	for k := 1; k <= n; k++ {
		h += w[middle+k] * math.Log(e.totals[middle+k]*e.totals[middle-k]) // at most e^600
	}
	for j, b := range e.from {
		h -= e.mass[j]*b + e.grid.root*r.a[j*r.rank]*e.moment[j]
	}
	return h
}

// gridError is the error that is reported for the trapezoid.
const gridError = 1e-10

// Quasi–Monte Carlo (E20) takes two sequences, each with its own shift of the
// lattice. Their difference tells the error.
const (
	qmcShifts = 2
	qmcFirst  = 512 // first points of a sequence
	qmcBlock  = 128 // points that share a product with A
	// qmcMatter times the tolerance is the sum of eigenvalues that are left out.
	qmcMatter = 1e-3
	// qmcSafety times the difference is the error that is reported.
	qmcSafety = 2
)
