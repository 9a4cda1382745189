package predictive

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/lattice"
	"github.com/funcgp/funcgp/internal/logsum"
	"github.com/funcgp/funcgp/internal/vector"
)

// doubled calls add for the points of each sequence and doubles their number until done(points) is true, or more
// would exceed most points in all or the lattice. It returns the number of points of one sequence.
func doubled(most int, add func(shift, lo, hi int), done func(points int) bool) int {
	for lo, hi := 0, min(qmcFirst, max(most/qmcShifts, 1)); ; lo, hi = hi, 2*hi {
		for shift := range qmcShifts {
			add(shift, lo, hi)
		}
		if done(hi) || 2*hi*qmcShifts > most || 2*hi > lattice.Points {
			return hi
		}
	}
}

// qmcBlocks calls visit with blocks of the points lo to hi−1 of a sequence: l has the logits centre + A z in
// contiguous rows, which visit may change, and z has the points, which visit must not change.
func (r *softmaxRow) qmcBlocks(centre []float64, rank, shift, lo, hi int, visit func(l, z blas64.General)) {
	a := dense.Cols(dense.Of(r.a, r.c, r.rank), 0, rank)
	all, l := dense.New(qmcBlock, rank), dense.New(qmcBlock, a.Rows)
	for ; lo < hi; lo += qmcBlock {
		n := min(qmcBlock, hi-lo)
		z, ln := dense.Rows(all, 0, n), dense.Rows(l, 0, n)
		lattice.NormalsTo(z.Data[:n*rank], rank, shift, lo, lo+n)
		for i := range n {
			copy(dense.Row(ln, i), centre)
		}
		if rank > 0 {
			dense.Gemm1(blas.NoTrans, blas.Trans, 1, z, a, 1, ln)
		}
		visit(ln, z)
	}
}

// qmcMoments integrates by lattice points, doubled until the sequences agree to tol or there are most of them. ok
// tells whether density was set to the log density; a nil density asks for none.
func (r *softmaxRow) qmcMoments(wants softmaxWants, density *sharedDensity, tol float64, most int) (m *softmaxMoments, ok bool) {
	var parts [qmcShifts]*softmaxSums
	for k := range parts {
		parts[k] = newSoftmaxSums(r.base, wants)
	}
	err := 0.0
	sheet := r.sheet(r.m, dense.Of(r.a, r.c, r.rank))
	smooth := r.smooth(wants, most)
	limit := most
	if smooth != nil {
		limit = qmcShifts * qmcFirst
	}
	n := doubled(limit, func(shift, lo, hi int) {
		if sheet != nil {
			sheet.each(shift, lo, hi, parts[shift].addSheet)
			return
		}
		r.qmcBlocks(r.m, r.rank, shift, lo, hi, func(l, _ blas64.General) { parts[shift].addRows(l, 1) })
	}, func(points int) bool {
		err = spread(parts[:])
		density.set(parts[:], points)
		return err <= tol
	})
	if smooth != nil {
		if limit = most; err > tol {
			limit = smooth.most
			n = doubled(limit, smooth.add, func(points int) bool {
				parts = smooth.sums(r.base)
				err = spread(parts[:])
				density.set(parts[:], points)
				return err <= tol
			})
		}
	}
	m = r.moments(parts[:]...)
	m.nodes, m.err = qmcShifts*n, m.err+qmcSafety*err
	return m, density.serves(tol, 2*qmcShifts*n > limit || 2*n > lattice.Points)
}

// logDensity returns log E softmax(f)_y for the row's Gaussian, and its estimated error. The nodes are moved to the
// mode z0 of log p_y(z) − ½|z|². With z = z0 + u,
//
//	log E p_y = log p_y(z0) − ½|z0|² + log E exp(log p_y(z0+u) − log p_y(z0) − z0·u),
//
// and the exponential is at most 1, because log p_y is concave.
func (r *softmaxRow) logDensity(y int, tol float64, most int, noGrid bool) (logp, err float64) {
	z0 := make([]float64, r.rank)
	r.modeTo(z0, y, 1)
	centre := r.at(z0, 1)
	top := logSoftmaxAt(centre, y)
	start := top - 0.5*dense.Dot(z0, z0)
	if r.rank == 0 {
		return start, r.restShift
	}
	if g := r.grid(1, gridNodes); g != nil && !noGrid {
		return min(start+g.logMean(centre, z0, y, top), 0), gridError
	}
	rank := r.rankWithout(tol * qmcMatter)
	if rank == 0 {
		return start, r.restShift
	}
	var parts [qmcShifts]likelihoodSum
	for k := range parts {
		parts[k].tiny = logsum.New()
	}
	mean, sheet := 0.0, r.likelihoodSheet(centre, rank, z0, y, top)
	doubled(most, func(shift, lo, hi int) {
		if sheet != nil {
			sheet.each(shift, lo, hi, func(p sheetPart) { parts[shift].sum += vector.Dot(dense.Row(p.e, r.c), p.inverse) })
			return
		}
		r.qmcBlocks(centre, rank, shift, lo, hi, func(l, z blas64.General) { parts[shift].add(l, z, z0[:rank], y, top) })
	}, func(points int) bool {
		a, b := parts[0].value(), parts[1].value()
		both := logsum.New()
		both.Add(a)
		both.Add(b)
		before := mean
		mean, err = both.Value()-math.Log(float64(qmcShifts*points)), math.Abs(a-b)
		if points > qmcFirst { // two numbers may agree by chance: demand a second agreement
			err = max(err, math.Abs(mean-before))
			return err <= tol
		}
		return false
	})
	return min(start+mean, 0), qmcSafety*err + r.restShift
}

// A likelihoodSum is Σ exp(log p_y(z0+u) − log p_y(z0) − z0·u) over the nodes u, where z0 is the mode of
// log p_y(z) − ½|z|². Each term is at most 1, because log p_y is concave.
type likelihoodSum struct {
	sum      float64
	tiny     logsum.Sum // sum of the terms that might underflow
	g, total []float64
}

// add adds the terms of the nodes u, one a row, with logits l. It overwrites l.
func (s *likelihoodSum) add(l, u blas64.General, z0 []float64, y int, top float64) {
	const least = -600
	s.g, s.total = s.g[:0], s.total[:0]
	for i := range l.Rows {
		row := dense.Row(l, i)
		fromTop(row)
		s.g = append(s.g, row[y]-top-dense.Dot(dense.Row(u, i), z0))
	}
	vector.Exp(l.Data[:l.Rows*l.Cols], l.Data[:l.Rows*l.Cols])
	for i, g := range s.g {
		total := 0.0
		for _, e := range dense.Row(l, i) {
			total += e
		}
		s.total = append(s.total, total)
		if g < least {
			s.tiny.Add(g - math.Log(total))
			s.g[i] = math.Inf(-1)
		}
	}
	vector.Exp(s.g, s.g)
	for i, e := range s.g {
		s.sum += e / s.total[i]
	}
}

// value returns the logarithm of the sum.
func (s *likelihoodSum) value() float64 {
	t := s.tiny
	if s.sum != 0 {
		t.Add(math.Log(s.sum))
	}
	return t.Value()
}

// at returns the logits m + root·A z.
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
	if l[y] == top { // so that 1 − p keeps its digits
		return -math.Log1p(rest)
	}
	return l[y] - top - math.Log(rest+math.Exp(l[y]-top))
}
