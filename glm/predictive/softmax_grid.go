package predictive

import (
	"math"

	"github.com/funcgp/funcgp/glm/integral"
)

// The tensor trapezoid for a rank of at most 3 (E11). Along column k of A two logits move apart by at most reach·z.
// The sum of their exponentials has no zero in the strip |Im z| < d = π/reach, so a step of h leaves an error of
// e^{d²/2 − 2πd/h}. The step is chosen for e⁻²⁶ = 5e-12, and is never larger than the Gaussian alone allows.
const (
	gridRank     = 3
	gridExponent = 26.0
	gridRadius   = 7.2     // nodes have |z| ≤ 7.2; the probability outside is 3e-11
	gridNodes    = 1 << 22 // the most nodes; more would take too long
)

// gridStep returns the step along a column of A with the given reach.
func gridStep(reach float64) float64 {
	d := min(math.Pi/reach, math.Sqrt(2*gridExponent))
	return 2 * math.Pi * d / (gridExponent + d*d/2)
}

// A softmaxGrid is a tensor trapezoid over the coordinates z of a row.
type softmaxGrid struct {
	row     *softmaxRow
	root    float64   // √s: the covariance is s·AAᵀ
	centre  []float64 // m + √s A z0
	z0      []float64
	steps   []float64
	scratch []float64 // logits at each level of the recursion
	visit   func(l []float64, tilt, w float64, n int)
}

// grid returns the trapezoid for the covariance s·AAᵀ, root = √s, around the mean. It returns nil where the rank is
// above 3, and where there are more than most nodes.
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
	switch r.rank { // share of the cube in the ball
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

// each calls visit for every line of nodes along column 0 of A, with the values at the middle of the line: the
// logits l, tilt = z0·z and w = e^{−½|z|²}. n is the number of nodes on either side. visit may overwrite l. The
// nodes are f = centre + √s A z.
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

// A softmaxLine has the numbers that all lines of a grid share, for each position from −n to n on a line: weights,
// and factors of the exponentials of the logits.
type softmaxLine struct {
	middle  int
	weights []float64 // e^{−½z²}
	tilts   []float64 // e^{−z0·z}
	factors []float64 // e^{√s A z}, positions×C
}

// line returns the softmaxLine of the grid, or nil where a factor might overflow.
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

// expTo overwrites the logits l with e^{l − max l} and returns max l.
func expTo(l []float64) (top float64) {
	top = l[integral.Argmax(l)]
	for j, v := range l {
		l[j] = math.Exp(v - top)
	}
	return top
}

// logMean returns log E exp(log p_y(z0+u) − log p_y(z0) − z0·u) for u ~ N(0, I), where centre has the logits at z0
// and top is log p_y(z0).
func (g *softmaxGrid) logMean(centre, z0 []float64, y int, top float64) float64 {
	g.centre, g.z0 = centre, z0
	r, sum, weight := g.row, 0.0, 0.0
	c := r.c
	line := g.line()
	if line == nil || top < -300 {
		// An exponential may overflow: take logarithms at each node.
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

// gridMoments integrates by the trapezoid. It returns nil where the trapezoid is too large.
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
			// the logits at the middle of the line
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

// A lineEntropy sums the entropies H = log Σ eˡ − Σ p l of the nodes of a line. The logits are l_j = b_j + √s z
// a_j, so Σ w p l over the nodes follows from Σ w p and Σ w z p. The nodes at z and −z have the same weight, so the
// logarithm of their product is enough.
type lineEntropy struct {
	grid         *softmaxGrid
	line         *softmaxLine
	from         []float64 // b, with largest entry 0
	mass, moment []float64 // Σ w p and Σ w z p
	totals       []float64 // Σ eˡ at each node
}

// add adds the probabilities p of node i, where total is Σ eˡ.
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

// end returns the sum over the line, with n nodes on either side.
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

// Quasi–Monte Carlo (E20) takes two sequences, which are two shifts of the lattice. Their difference estimates the
// error.
const (
	qmcShifts = 2
	qmcFirst  = 512 // first number of points of each sequence
	qmcBlock  = 128 // points multiplied by A at once
	// qmcMatter times the tolerance is the largest sum of eigenvalues that are dropped.
	qmcMatter = 1e-3
	// qmcSafety times the difference of the sequences is the error that is reported.
	qmcSafety = 2
)
