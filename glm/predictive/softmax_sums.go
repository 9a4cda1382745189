package predictive

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/lapack/lapack64"

	"github.com/funcgp/funcgp/glm/integral"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/largest"
	"github.com/funcgp/funcgp/internal/lattice"
	"github.com/funcgp/funcgp/internal/vector"
)

// softmaxWants tells which integrals are wanted beside E p and Var p.
type softmaxWants struct {
	entropy bool // E H[p]
	cross   bool // Cov p
}

// softmaxSums are weighted sums over values p of softmax(f). Sums of differences from base, the softmax of the
// mean, keep the digits of a small variance.
type softmaxSums struct {
	wants        softmaxWants
	base         []float64
	weight       float64
	mean, square []float64 // Σ w (p − base) and Σ w (p − base)²
	cross        []float64 // Σ w (p − base)(p − base)ᵀ, upper triangle of C×C
	entropy      float64   // Σ w H[p]
	d            []float64
	logits       []float64 // scratch of addRows
}

func newSoftmaxSums(base []float64, wants softmaxWants) *softmaxSums {
	c := len(base)
	s := &softmaxSums{wants: wants, base: base, mean: make([]float64, c), square: make([]float64, c), d: make([]float64, c)}
	if wants.cross {
		s.cross = make([]float64, c*c)
	}
	return s
}

// add adds softmax(l) with weight w. It overwrites l.
func (s *softmaxSums) add(l []float64, w float64) { s.addRows(dense.In(l, 1, len(l)), w) }

// addRows adds softmax of each row of l with weight w. The rows must be contiguous. It overwrites l.
func (s *softmaxSums) addRows(l blas64.General, w float64) {
	for i := range l.Rows {
		fromTop(dense.Row(l, i))
	}
	if s.wants.entropy {
		s.logits = append(s.logits[:0], l.Data[:l.Rows*l.Cols]...)
	}
	vector.Exp(l.Data[:l.Rows*l.Cols], l.Data[:l.Rows*l.Cols])
	for i := range l.Rows {
		p, h, sum := dense.Row(l, i), 0.0, 0.0
		for _, e := range p {
			sum += e
		}
		inverse := 1 / sum
		if s.wants.entropy {
			// H = log Σ eˡ − Σ p l
			h = math.Log(sum)
			for j, v := range s.logits[i*l.Cols : (i+1)*l.Cols] {
				if p[j] > 0 {
					h -= p[j] * inverse * v
				}
			}
		}
		for j := range p {
			p[j] *= inverse
		}
		s.addProbabilities(p, w, h)
	}
}

// fromTop subtracts the largest logit from all logits l, and returns it.
func fromTop(l []float64) (top float64) {
	top = l[0]
	for _, v := range l {
		if v > top {
			top = v
		}
	}
	for j := range l {
		l[j] -= top
	}
	return top
}

// addProbabilities adds p with weight w and entropy h.
func (s *softmaxSums) addProbabilities(p []float64, w, h float64) {
	s.weight += w
	s.entropy += w * h
	base, mean, square := s.base[:len(p)], s.mean[:len(p)], s.square[:len(p)]
	for j, v := range p {
		d := v - base[j]
		wd := w * d
		mean[j] += wd
		square[j] += wd * d
	}
	if s.wants.cross {
		c := len(p)
		for j, v := range p {
			s.d[j] = v - s.base[j]
		}
		for i, di := range s.d {
			row := s.cross[i*c : (i+1)*c]
			for j := i; j < c; j++ {
				row[j] += w * di * s.d[j]
			}
		}
	}
}

// softmaxMoments are the integrals of p = softmax(f) for one example.
type softmaxMoments struct {
	mean, variance  []float64
	covariance      []float64 // C×C, if wanted
	entropy         float64   // H[E p]
	expectedEntropy float64   // E H[p]
	err             float64   // estimated error of E p and of E p²
	nodes           int       // number of nodes; 0 for a closed form
}

// moments returns the integrals from parts, sums over the same number of nodes each.
func (r *softmaxRow) moments(parts ...*softmaxSums) *softmaxMoments {
	c, first := r.c, parts[0]
	m := &softmaxMoments{mean: make([]float64, c), variance: make([]float64, c), err: r.restShift}
	shift, square := make([]float64, c), make([]float64, c)
	if first.wants.cross {
		m.covariance = make([]float64, c*c)
	}
	n := float64(len(parts))
	for _, s := range parts {
		w := 1 / (n * s.weight)
		for j := range c {
			shift[j] += s.mean[j] * w
			square[j] += s.square[j] * w
		}
		for k, v := range s.cross {
			m.covariance[k] += v * w
		}
		m.expectedEntropy += s.entropy * w
	}
	for j := range c {
		m.mean[j] = min(max(r.base[j]+shift[j], 0), 1)
		m.variance[j] = max(square[j]-shift[j]*shift[j], 0)
		if r.restVariance != nil {
			m.variance[j] += r.restVariance[j]
		}
	}
	if m.covariance != nil {
		// Add the covariance of p in the directions that cut dropped.
		cross := m.covariance
		for _, u := range r.restCross {
			for i, v := range u {
				for j := i; j < r.c; j++ {
					cross[i*r.c+j] += v * u[j]
				}
			}
		}
	}
	m.expectedEntropy -= r.restMutual
	for i := range c {
		for j := i; j < c && m.covariance != nil; j++ {
			v := m.covariance[i*c+j] - shift[i]*shift[j]
			if i == j {
				v = m.variance[i]
			}
			m.covariance[i*c+j], m.covariance[j*c+i] = v, v
		}
	}
	m.entropy = integral.EntropyOf(m.mean)
	return m
}

// spread returns the largest difference between parts in any E p and E p².
func spread(parts []*softmaxSums) float64 {
	worst := 0.0
	for j, base := range parts[0].base {
		lo, hi, lo2, hi2 := math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1)
		for _, s := range parts {
			// E p² = base² + 2 base E(p − base) + E(p − base)²
			v := s.mean[j] / s.weight
			v2 := 2*base*v + s.square[j]/s.weight
			lo, hi, lo2, hi2 = min(lo, v), max(hi, v), min(lo2, v2), max(hi2, v2)
		}
		worst = max(worst, hi-lo, hi2-lo2)
	}
	return worst
}

const (
	// sheetNodes is the number of nodes in a softmaxSheet.
	sheetNodes = 128
	// sheetLogit bounds the logits of a softmaxSheet, so that neither exponentials nor their sums overflow or
	// underflow.
	sheetLogit = 690
	// sheetRadius bounds the coordinates of a lattice point.
	sheetRadius = 8
)

// A softmaxSheet computes the exponentials of the logits centre + A z at many points z, class by class. All logits
// are bounded by sheetLogit, so no maximum needs to be subtracted.
type softmaxSheet struct {
	c       int
	a       blas64.General // C×(1+rank): centre and A; more rows may follow
	l, e    blas64.General // logits and exponentials, one row for each row of a
	inverse []float64      // 1/Σ eˡ over the C classes
}

// sheet returns a softmaxSheet, or nil where a logit may exceed sheetLogit or package lattice has no columns of
// coordinates.
func (r *softmaxRow) sheet(centre []float64, a blas64.General) *softmaxSheet {
	if _, _, ok := lattice.Columns(a.Cols, 0, 0, 1); !ok || a.Cols == 0 {
		return nil
	}
	both := dense.New(a.Rows, 1+a.Cols)
	for i, m := range centre {
		bound := math.Abs(m)
		for _, v := range dense.Row(a, i) {
			bound += sheetRadius * math.Abs(v)
		}
		if !(bound <= sheetLogit) {
			return nil
		}
		row := dense.Row(both, i)
		row[0] = m
		copy(row[1:], dense.Row(a, i))
	}
	return &softmaxSheet{c: r.c, a: both, l: dense.New(a.Rows, sheetNodes), e: dense.New(a.Rows, sheetNodes), inverse: make([]float64, sheetNodes)}
}

// likelihoodSheet is sheet for the nodes of a likelihoodSum. One more row has the logarithm of the term before the
// division by Σ eˡ.
func (r *softmaxRow) likelihoodSheet(centre []float64, rank int, z0 []float64, y int, top float64) *softmaxSheet {
	a := dense.New(r.c+1, rank)
	dense.Copy(dense.Rows(a, 0, r.c), dense.Cols(dense.Of(r.a, r.c, r.rank), 0, rank))
	// l_y − log p_y(z0) − z0·u
	floats.SubTo(dense.Row(a, r.c), dense.Row(a, y), z0[:rank])
	return r.sheet(append(append([]float64(nil), centre...), centre[y]-top), a)
}

// A sheetPart has the logits, exponentials and 1/Σ eˡ of some nodes, one node a column.
type sheetPart struct {
	l, e    blas64.General
	inverse []float64
}

// each calls visit with the nodes lo to hi−1 of a sequence, at most sheetNodes at a time. visit may change them.
func (s *softmaxSheet) each(shift, lo, hi int, visit func(p sheetPart)) {
	for ; lo < hi; lo += sheetNodes - lo%sheetNodes {
		// Compute a whole number of vectors, with some nodes before and after those asked for.
		from := lo / vector.AffineNodes * vector.AffineNodes
		n := min(sheetNodes-lo%sheetNodes, hi-lo)
		all := (lo + n - from + vector.AffineNodes - 1) / vector.AffineNodes * vector.AffineNodes
		points, stride, _ := lattice.Columns(s.a.Cols-1, shift, from, from+all)
		vector.ExpAffine(s.l.Data, s.e.Data, s.inverse, s.a.Data, points, s.a.Rows, s.a.Rows-s.c, s.a.Cols-1, s.l.Stride, stride, all)
		from = lo - from
		visit(sheetPart{dense.Cols(s.l, from, from+n), dense.Cols(s.e, from, from+n), s.inverse[from : from+n]})
	}
}

// addSheet adds the softmax of each node of a sheetPart with weight 1. It overwrites the exponentials.
func (s *softmaxSums) addSheet(of sheetPart) {
	s.weight += float64(of.e.Cols)
	if s.wants.entropy {
		for _, v := range of.inverse {
			s.entropy -= math.Log(v)
		}
	}
	for j, base := range s.base {
		d := dense.Row(of.e, j)
		// Replace e by p − base, p = e·inverse, and compute the sum of these numbers and of their squares.
		inverse := of.inverse
		var sum float64
		var square float64
		whole := len(d) / vector.AffineNodes * vector.AffineNodes
		sum, square = vector.Deviations(d[:whole], inverse, base)
		for i := whole; i < len(d); i++ {
			d[i] = d[i]*inverse[i] - base
			sum += d[i]
			square += d[i] * d[i]
		}
		s.mean[j] += sum
		s.square[j] += square
		if s.wants.entropy {
			// H = log Σ eˡ − Σ p l
			l := dense.Row(of.l, j)
			s.entropy -= vector.Dot(d, l) + base*vector.Sum(l)
		}
	}
	if s.wants.cross {
		for i := range s.base {
			for j := i; j < len(s.base); j++ {
				s.cross[i*len(s.base)+j] += vector.Dot(dense.Row(of.e, i), dense.Row(of.e, j))
			}
		}
	}
}

// A sharedDensity is log E p_y from the nodes that integrate the moments.
type sharedDensity struct {
	y         int
	logp, err float64 // err has the meaning of logDensity's err
}

const (
	// sharedLeast is the least probability whose log density is taken from the nodes of the moments although even
	// all nodes miss the tolerance. For smaller probabilities, nodes moved to the mode err less.
	sharedLeast = 0.25
	// sharedDigits is the least probability that keeps enough digits in the sums of differences from base.
	sharedDigits = 1e-9
)

// set computes log E p_y from the sums of two sequences with points points each. It does nothing for a nil d.
func (d *sharedDensity) set(parts []*softmaxSums, points int) {
	if d == nil {
		return
	}
	at := func(s *softmaxSums) float64 { return s.base[d.y] + s.mean[d.y]/s.weight }
	a, b, before := at(parts[0]), at(parts[1]), d.logp
	d.logp = math.Log((a + b) / 2)
	if d.err = math.Inf(1); points > qmcFirst { // two numbers may agree by chance
		d.err = max(math.Abs(math.Log(a/b)), math.Abs(d.logp-before))
	}
}

// serves tells whether the log density is good enough: the probability is at least sharedDigits and the error at
// most tol; or last is true, which says that no more points will come, and the probability is at least sharedLeast.
func (d *sharedDensity) serves(tol float64, last bool) bool {
	switch {
	case d == nil || !(d.logp >= math.Log(sharedDigits)):
		return false
	case d.err <= tol:
		return true
	}
	return last && d.logp >= math.Log(sharedLeast)
}

// A smoothRow integrates softmax under independent noise (E20). It writes the covariance as HΣH = dH + BBᵀ, takes
// nodes for B only, and at each node the expectation over noise of variance d in closed form (internal/largest).
// This expectation varies over √d where softmax varies over 1. For wide covariances it therefore needs far fewer
// points.
type smoothRow struct {
	m     []float64
	b     blas64.General // C×rank
	f     blas64.General // values of m + B z, C×qmcBlock
	parts [qmcShifts]*largest.Sums
	count [qmcShifts]int
	most  int
}

// smoothCost returns how many points without noise one point with noise replaces, or 0 where noise is not worth its
// time. d is the least eigenvalue, and ratio is the largest eigenvalue over d. A point with noise takes the time of
// about 16 points. Its error was measured against the error of as many points without noise, on random spectra of
// 5, 10 and 40 classes; the gain falls with the ratio.
func smoothCost(ratio, d float64) int {
	switch {
	case d < largest.Least:
		return 0
	case ratio <= min(6, d):
		return 32
	case ratio <= 12:
		return 16
	}
	return 0
}

// smooth returns the smoothRow of r, with the number of points that replaces most points without noise. It returns
// nil where noise does not help, or does not give the wanted integrals.
func (r *softmaxRow) smooth(wants softmaxWants, most int) (s *smoothRow) {
	if wants != (softmaxWants{}) || r.rank < 2 || r.rank != r.c-1 {
		return nil
	}
	least := r.lambda[r.rank-1]
	cost := smoothCost(r.lambda[0]/least, least)
	if cost == 0 || most/cost < 2*qmcShifts*qmcFirst {
		return nil
	}
	n := largest.NoiseUpTo(least)
	b, _ := r.contrasts(n.Variance, integral.Argmax(r.m))
	s = &smoothRow{m: r.m, b: b, f: dense.New(r.c, qmcBlock), most: most / cost}
	for k := range s.parts {
		s.parts[k] = largest.NewSums(n, r.c)
	}
	return s
}

// contrasts returns B with BBᵀ = HΣH − dH up to a shift common to all logits, chosen such that the logit of the
// given class is constant. order lists the classes: this class first, the others by falling means. The k-th class
// in this order depends on the first k−1 coordinates only, so the first coordinates matter most. The error is then
// far smaller than with eigenvectors.
func (r *softmaxRow) contrasts(d float64, class int) (b blas64.General, order []int) {
	order = make([]int, r.c)
	for j := range order {
		order[j] = j
	}
	order[0], order[class] = class, 0
	slices.SortStableFunc(order[1:], func(i, j int) int { return cmp.Or(cmp.Compare(r.m[j], r.m[i]), cmp.Compare(i, j)) })
	first := r.a[order[0]*r.rank:][:r.rank]
	// V has one column for each other class, and VᵀV are the products of the rows of B. By QR, V = QR, B = Rᵀ.
	v := dense.New(r.rank, r.c-1)
	for k, l := range r.lambda {
		part := math.Sqrt(max(0, 1-d/l))
		for i, j := range order[1:] {
			v.Data[k*v.Stride+i] = part * (r.a[j*r.rank+k] - first[k])
		}
	}
	tau, work := make([]float64, min(r.rank, r.c-1)), make([]float64, r.c)
	lapack64.Geqrf(v, tau, work, len(work))
	b = dense.New(r.c, r.rank)
	for i, j := range order[1:] {
		for k := range min(i+1, r.rank) {
			b.Data[j*r.rank+k] = v.Data[k*v.Stride+i]
		}
	}
	return b, order
}

// add adds the nodes lo to hi−1 of a sequence.
func (s *smoothRow) add(shift, lo, hi int) {
	s.count[shift] = hi
	for rank := s.b.Cols; lo < hi; lo += qmcBlock - lo%qmcBlock {
		n := min(qmcBlock-lo%qmcBlock, hi-lo)
		f := dense.Cols(s.f, 0, n)
		for j, m := range s.m {
			row := dense.Row(f, j)
			for k := range row {
				row[k] = m
			}
		}
		if points, stride, ok := lattice.Columns(rank, shift, lo, lo+n); ok {
			dense.Gemm1(blas.NoTrans, blas.NoTrans, 1, s.b, blas64.General{Rows: rank, Cols: n, Stride: stride, Data: points}, 1, f)
		} else {
			z := dense.New(n, rank)
			lattice.NormalsTo(z.Data, rank, shift, lo, lo+n)
			dense.Gemm1(blas.NoTrans, blas.Trans, 1, s.b, z, 1, f)
		}
		s.parts[shift].Add(f)
	}
}

// sums returns the sums in the form in which softmax without noise gives them.
func (s *smoothRow) sums(base []float64) (parts [qmcShifts]*softmaxSums) {
	for k, of := range s.parts {
		p := newSoftmaxSums(base, softmaxWants{})
		of.To(p.mean, p.square)
		p.weight = float64(s.count[k])
		for j, b := range base {
			// Σ (p − b)² = Σ p² − 2b Σ p + n b²
			p.square[j] += b * (p.weight*b - 2*p.mean[j])
			p.mean[j] -= p.weight * b
		}
		parts[k] = p
	}
	return parts
}
