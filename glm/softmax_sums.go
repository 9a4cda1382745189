package glm

import "math"

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
func (s *softmaxSums) add(l []float64, w float64) {
	top := l[0]
	for _, v := range l {
		if v > top {
			top = v
		}
	}
	sum, weighted := 0.0, 0.0
	for j, v := range l {
		v -= top
		e := math.Exp(v)
		l[j] = e
		sum += e
		if e > 0 {
			weighted += e * v
		}
	}
	inverse := 1 / sum
	for j := range l {
		l[j] *= inverse
	}
	h := 0.0
	if s.wants.entropy {
		h = math.Log(sum) - weighted*inverse // H = log Σ eˡ − Σ p l
	}
	s.addProbabilities(l, w, h)
}

// addProbabilities adds p, whose entropy is h, with weight w.
func (s *softmaxSums) addProbabilities(p []float64, w, h float64) {
	s.weight += w
	s.entropy += w * h
	for j, v := range p {
		d := v - s.base[j]
		wd := w * d
		s.mean[j] += wd
		s.square[j] += wd * d
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
