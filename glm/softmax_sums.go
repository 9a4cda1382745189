package glm

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"

	fblas "github.com/funcgp/funcgp/internal/blas"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/lattice"
	"github.com/funcgp/funcgp/internal/vector"
)

// softmaxWants tells what is to be integrated beside E p and Var p.
type softmaxWants struct {
	entropy bool // E H[p]
	cross   bool // Cov p
}

// softmaxSums are weighted sums over values p of softmax(f). Differences to
// base, the softmax of the mean, keep the digits of a small variance.
type softmaxSums struct {
	wants        softmaxWants
	base         []float64
	weight       float64
	mean, square []float64 // Σ w (p − base) and Σ w (p − base)²
	cross        []float64 // Σ w (p − base)(p − base)ᵀ, C×C, its upper triangle
	entropy      float64   // Σ w H[p]
	d            []float64
	logits       []float64 // of addRows
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

// addRows adds softmax of each row of l, which are contiguous, with weight w each. It
// overwrites l.
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

// fromTop subtracts from the logits l their largest.
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

// addProbabilities adds p, whose entropy is h, with weight w.
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
		s.addCross(p, w)
	}
}

func (s *softmaxSums) addCross(p []float64, w float64) {
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

// softmaxMoments are the integrals of softmax(f) of one example.
type softmaxMoments struct {
	mean, variance  []float64
	covariance      []float64 // C×C, where it is wanted
	entropy         float64   // H[E p]
	expectedEntropy float64   // E H[p]
	err             float64   // estimated error of the mean and of E p²
	nodes           int       // values of f that were used; 0 for a closed form
}

// moments returns the integrals from sums of the same number of nodes each.
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
		r.addRestCross(m.covariance)
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
	m.entropy = entropyOf(m.mean)
	return m
}

// addRestCross adds the covariance of p in the directions that were cut.
func (r *softmaxRow) addRestCross(cross []float64) {
	for _, u := range r.restCross {
		for i, v := range u {
			for j := i; j < r.c; j++ {
				cross[i*r.c+j] += v * u[j]
			}
		}
	}
}

// spread returns the largest difference between parts in E p and E p².
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

// entropyOf returns −Σ p log p in nats.
func entropyOf(p []float64) float64 {
	h := 0.0
	for _, v := range p {
		if v > 0 {
			h -= v * math.Log(v)
		}
	}
	return max(h, 0)
}

const (
	// sheetNodes is how many nodes a softmaxSheet takes at a time.
	sheetNodes = 256
	// sheetLogit bounds the logits of a softmaxSheet, so that neither their exponentials
	// nor the sums of these overflow or underflow.
	sheetLogit = 690
	// sheetRadius bounds the coordinates of a point of the lattice.
	sheetRadius = 8
)

// A softmaxSheet computes the exponentials of logits centre + A z at many points z,
// class by class. Because all logits are small, none is subtracted from the others.
type softmaxSheet struct {
	c      int
	centre []float64
	a      blas64.General // C×rank, followed by further rows
	l, e   blas64.General // logits and exponentials, a row for each of a
	total  []float64      // Σ eˡ over the C classes, of the nodes at hand
}

// sheet returns a softmaxSheet, or nil where the logits may be large or the points are
// not kept by coordinates.
func (r *softmaxRow) sheet(centre []float64, a blas64.General) *softmaxSheet {
	if _, _, ok := lattice.Columns(a.Cols, 0, 0, 1); !ok || a.Cols == 0 {
		return nil
	}
	for i, m := range centre {
		bound := math.Abs(m)
		for _, v := range dense.Row(a, i) {
			bound += sheetRadius * math.Abs(v)
		}
		if !(bound <= sheetLogit) {
			return nil
		}
	}
	return &softmaxSheet{c: r.c, centre: centre, a: a, l: dense.New(a.Rows, sheetNodes), e: dense.New(a.Rows, sheetNodes)}
}

// likelihoodSheet is sheet for the nodes of a likelihoodSum, with one more row that has
// the logarithm of the addend before the division by Σ eˡ.
func (r *softmaxRow) likelihoodSheet(centre []float64, rank int, z0 []float64, y int, top float64) *softmaxSheet {
	a := dense.New(r.c+1, rank)
	dense.Copy(dense.Rows(a, 0, r.c), dense.Cols(dense.Of(r.a, r.c, r.rank), 0, rank))
	// l_y − log p_y(z0) − z0·u
	floats.SubTo(dense.Row(a, r.c), dense.Row(a, y), z0[:rank])
	return r.sheet(append(append([]float64(nil), centre...), centre[y]-top), a)
}

// each calls visit with the exponentials for the points [lo, hi) of the sequence of a
// shift, some at a time. visit may change them.
func (s *softmaxSheet) each(shift, lo, hi int, visit func(e blas64.General)) {
	for ; lo < hi; lo += sheetNodes - lo%sheetNodes {
		n := min(sheetNodes-lo%sheetNodes, hi-lo)
		points, stride, _ := lattice.Columns(s.a.Cols, shift, lo, lo+n)
		l, e := dense.Cols(s.l, 0, n), dense.Cols(s.e, 0, n)
		for i, m := range s.centre {
			row := dense.Row(l, i)
			for j := range row {
				row[j] = m
			}
		}
		fblas.Gemm1(blas.NoTrans, blas.NoTrans, 1, s.a, blas64.General{Rows: s.a.Cols, Cols: n, Stride: stride, Data: points}, 1, l)
		vector.Exp(s.e.Data, s.l.Data)
		s.total = append(s.total[:0], dense.Row(e, 0)...)
		for i := 1; i < s.c; i++ {
			floats.Add(s.total, dense.Row(e, i))
		}
		visit(e)
	}
}

// addSheet adds the softmax of each node of a sheet, whose exponentials are e, with
// weight 1. It overwrites e.
func (s *softmaxSums) addSheet(of *softmaxSheet, e blas64.General) {
	s.weight += float64(e.Cols)
	s.logits = append(s.logits[:0], of.total...)
	inverse := s.logits
	for i, v := range inverse {
		inverse[i] = 1 / v
		if s.wants.entropy {
			s.entropy += math.Log(v)
		}
	}
	for j, base := range s.base {
		d := dense.Row(e, j)
		for i, v := range d {
			d[i] = v * inverse[i]
		}
		if s.wants.entropy {
			// H = log Σ eˡ − Σ p l
			s.entropy -= floats.Dot(d, dense.Row(of.l, j)[:len(d)])
		}
		floats.AddConst(-base, d)
		s.mean[j] += floats.Sum(d)
		s.square[j] += floats.Dot(d, d)
	}
	if s.wants.cross {
		for i := range s.base {
			for j := i; j < len(s.base); j++ {
				s.cross[i*len(s.base)+j] += floats.Dot(dense.Row(e, i), dense.Row(e, j))
			}
		}
	}
}
