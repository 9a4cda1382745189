package glm

import (
	"math"

	"gonum.org/v1/gonum/blas"

	fblas "github.com/funcgp/funcgp/internal/blas"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/lattice"
	"github.com/funcgp/funcgp/internal/logsum"
)

// The tensor trapezoid for a rank up to 3 (E11). Along column k of A two logits
// move apart by reach·z. Their exponentials cancel nowhere in the strip
// |Im z| < d = π/reach, and a step of h leaves an error of e^{d²/2 − 2πd/h}. The
// step here makes it e⁻²⁸ = 7e-13, up to the step beyond which the Gaussian itself
// needs as many nodes.
const (
	gridRank     = 3
	gridExponent = 28.0
	gridRadius   = 7.5     // nodes lie in |z| ≤ 7.5, which leaves out 6e-12
	gridNodes    = 1 << 20 // more nodes than that take too long
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
	scratch []float64 // C for each level
	visit   func(l []float64, tilt, w float64)
}

// grid returns the trapezoid for s·AAᵀ, or nil where it has more than the given
// number of nodes.
func (r *softmaxRow) grid(root float64, most float64) *softmaxGrid {
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

// each passes the logits of each node, z0·z and the weight e^{−½|z|²} to visit, for
// f = m + √s A (z0 + z). visit may overwrite the logits.
func (g *softmaxGrid) each(visit func(l []float64, tilt, w float64)) {
	g.visit = visit
	copy(g.scratch, g.centre)
	g.level(0, gridRadius*gridRadius, 0, 1)
}

func (g *softmaxGrid) level(k int, left, tilt, w float64) {
	c, rank := g.row.c, g.row.rank
	from := g.scratch[k*c : (k+1)*c]
	if k == rank {
		g.visit(from, tilt, w)
		return
	}
	to := g.scratch[(k+1)*c:][:c]
	h := g.steps[k]
	n := int(math.Sqrt(left) / h)
	for i := -n; i <= n; i++ {
		z := float64(i) * h
		for j, v := range from {
			to[j] = v + g.root*z*g.row.a[j*rank+k]
		}
		g.level(k+1, left-z*z, tilt+z*g.z0[k], w*math.Exp(-0.5*z*z))
	}
}

// gridMoments integrates by the trapezoid; nil where it is too large.
func (r *softmaxRow) gridMoments(wants softmaxWants) *softmaxMoments {
	g := r.grid(1, gridNodes)
	if g == nil {
		return nil
	}
	s, nodes := newSoftmaxSums(r.base, wants), 0
	g.each(func(l []float64, _, w float64) {
		nodes++
		s.add(l, w)
	})
	m := r.moments(s)
	m.nodes, m.err = nodes, m.err+gridError
	return m
}

// gridError is the error that is reported for the trapezoid.
const gridError = 1e-10

// Quasi–Monte Carlo (E20) takes pairs of sequences z and −z, so that odd terms
// cancel. Each pair has its own shift of the lattice, and the spread over all
// sequences tells the error.
const (
	qmcPairs  = 2
	qmcFirst  = 256 // first points of a sequence; 1,024 of all
	qmcBlock  = 128 // points that share a product with A
	qmcMatter = 1e-3
)

// qmcPoints passes A z of the points [lo, hi) of the sequence of a shift to visit,
// with the z, in the first rank columns of A.
func (r *softmaxRow) qmcPoints(rank, shift, lo, hi int, visit func(d, z []float64)) {
	z, d := dense.New(qmcBlock, rank), dense.New(qmcBlock, r.c)
	a := dense.Cols(dense.Of(r.a, r.c, r.rank), 0, rank)
	for ; lo < hi; lo += qmcBlock {
		n := min(qmcBlock, hi-lo)
		zn, dn := dense.Rows(z, 0, n), dense.Rows(d, 0, n)
		lattice.NormalsTo(zn.Data[:n*rank], rank, shift, lo, lo+n)
		if rank > 0 {
			fblas.Gemm1(blas.NoTrans, blas.Trans, 1, zn, a, 0, dn)
		}
		for i := range n {
			visit(dense.Row(dn, i), dense.Row(zn, i))
		}
	}
}

// qmcMoments doubles the points until the sequences agree to tol or there are most
// of them.
func (r *softmaxRow) qmcMoments(wants softmaxWants, tol float64, most int) *softmaxMoments {
	rank := r.rankWithout(tol * qmcMatter)
	parts := make([]*softmaxSums, 2*qmcPairs)
	for k := range parts {
		parts[k] = newSoftmaxSums(r.base, wants)
	}
	l := make([]float64, r.c)
	for lo, hi := 0, qmcFirst; ; lo, hi = hi, 2*hi {
		for p := range qmcPairs {
			plus, minus := parts[2*p], parts[2*p+1]
			r.qmcPoints(rank, p, lo, hi, func(d, _ []float64) {
				for j, m := range r.m {
					l[j] = m + d[j]
				}
				plus.add(l, 1)
				for j, m := range r.m {
					l[j] = m - d[j]
				}
				minus.add(l, 1)
			})
		}
		err := spread(parts)
		if err <= tol || 4*hi*qmcPairs > most || 2*hi > lattice.Points {
			m := r.moments(parts...)
			m.nodes, m.err = 2*qmcPairs*hi, m.err+err
			return m
		}
	}
}

// logDensity returns log E softmax(f)_y for f with covariance s·AAᵀ, root = √s,
// with its estimated error. The nodes are moved to the mode z0 of
// log p_y(z) − ½|z|²: with z = z0 + u,
//
//	log E p_y = log p_y(z0) − ½|z0|² + log E exp(log p_y(z0+u) − log p_y(z0) − z0·u),
//
// where the exponential is at most 1, because log p_y is concave.
func (r *softmaxRow) logDensity(y int, tol float64, most int, forceQMC bool) (logp, err float64) {
	z0 := make([]float64, r.rank)
	r.modeTo(z0, y, 1)
	centre := r.at(z0, 1)
	top := logSoftmaxAt(centre, y)
	start := top - 0.5*dense.Dot(z0, z0)
	if g := r.grid(1, gridNodes); g != nil && !forceQMC {
		g.centre, g.z0 = centre, z0
		sum, weight := 0.0, 0.0
		g.each(func(l []float64, tilt, w float64) {
			weight += w
			sum += w * math.Exp(logSoftmaxAt(l, y)-top-tilt)
		})
		return min(start+math.Log(sum/weight), 0), gridError
	}
	rank := r.rankWithout(tol * qmcMatter)
	parts := make([]logsum.Sum, 2*qmcPairs)
	for k := range parts {
		parts[k] = logsum.New()
	}
	l := make([]float64, r.c)
	for lo, hi := 0, qmcFirst; ; lo, hi = hi, 2*hi {
		for p := range qmcPairs {
			r.qmcPoints(rank, p, lo, hi, func(d, z []float64) {
				tilt := dense.Dot(z, z0[:rank])
				for j, m := range centre {
					l[j] = m + d[j]
				}
				parts[2*p].Add(logSoftmaxAt(l, y) - top - tilt)
				for j, m := range centre {
					l[j] = m - d[j]
				}
				parts[2*p+1].Add(logSoftmaxAt(l, y) - top + tilt)
			})
		}
		small, large, all := math.Inf(1), math.Inf(-1), logsum.New()
		for _, s := range parts {
			v := s.Value()
			small, large = min(small, v), max(large, v)
			all.Add(v)
		}
		if large-small <= tol || 4*hi*qmcPairs > most || 2*hi > lattice.Points {
			return min(start+all.Value()-math.Log(float64(2*qmcPairs*hi)), 0), large - small + r.restShift
		}
	}
}

// at returns m + root·A z.
func (r *softmaxRow) at(z []float64, root float64) []float64 {
	l := make([]float64, r.c)
	for j, m := range r.m {
		l[j] = m + root*dense.Dot(r.a[j*r.rank:(j+1)*r.rank], z)
	}
	return l
}

// logSoftmaxAt returns log softmax(l)_y = −log Σ e^{l_j − l_y}.
func logSoftmaxAt(l []float64, y int) float64 {
	top := l[0]
	for _, v := range l {
		if v > top {
			top = v
		}
	}
	rest := 0.0
	for j, v := range l {
		if j != y {
			rest += math.Exp(v - top)
		}
	}
	if l[y] == top { // 1 − p keeps its digits
		return -math.Log1p(rest)
	}
	return l[y] - top - math.Log(rest+math.Exp(l[y]-top))
}
