package linearize

import "math"

// softmax normalizes lines of a tensor: length elements, inner apart.
type softmax struct {
	outer, length, inner int
	log                  bool
}

func (o *softmax) lines(do func(start int)) {
	for i := range o.outer {
		for j := range o.inner {
			do(i*o.length*o.inner + j)
		}
	}
}

func (o *softmax) forward(s *state, nd *node) {
	for e := range s.copies(nd.out) {
		x, y := s.at(nd.in[0], e), s.at(nd.out, e)
		o.lines(func(start int) { o.line(y[start:], x[start:]) })
	}
}

func (o *softmax) line(y, x []float64) {
	top, sum := math.Inf(-1), 0.0
	for k := range o.length {
		top = max(top, x[k*o.inner])
	}
	for k := range o.length {
		sum += math.Exp(x[k*o.inner] - top)
	}
	lse := top + math.Log(sum)
	for k := range o.length {
		y[k*o.inner] = x[k*o.inner] - lse
		if !o.log {
			y[k*o.inner] = math.Exp(y[k*o.inner])
		}
	}
}

func (o *softmax) backward(s *state, nd *node) {
	for e := range s.n {
		y, dx, dy := s.at(nd.out, e), s.gradAt(nd.in[0], e), s.gradAt(nd.out, e)
		o.lines(func(start int) { o.lineGrad(dx[start:], y[start:], dy[start:]) })
	}
}

func (o *softmax) lineGrad(dx, y, dy []float64) {
	sum := 0.0
	for k := 0; k < o.length*o.inner; k += o.inner {
		if o.log {
			sum += dy[k]
		} else {
			sum += dy[k] * y[k]
		}
	}
	for k := 0; k < o.length*o.inner; k += o.inner {
		if o.log {
			dx[k] += dy[k] - math.Exp(y[k])*sum
		} else {
			dx[k] += y[k] * (dy[k] - sum)
		}
	}
}

// normalize subtracts the mean of each segment of length elements and divides
// by the square root of its variance plus eps.
type normalize struct {
	length int
	eps    float64
}

func (o *normalize) forward(s *state, nd *node) {
	for e := range s.copies(nd.out) {
		x, y := s.at(nd.in[0], e), s.at(nd.out, e)
		for at := 0; at < len(x); at += o.length {
			o.segment(y[at:at+o.length], x[at:at+o.length])
		}
	}
}

func (o *normalize) segment(y, x []float64) {
	mean, inv := o.moments(x)
	for i, v := range x {
		y[i] = (v - mean) * inv
	}
}

// moments returns the mean and 1/√(variance + eps).
func (o *normalize) moments(x []float64) (mean, inv float64) {
	for _, v := range x {
		mean += v
	}
	mean /= float64(len(x))
	variance := 0.0
	for _, v := range x {
		variance += (v - mean) * (v - mean)
	}
	return mean, 1 / math.Sqrt(variance/float64(len(x))+o.eps)
}

func (o *normalize) backward(s *state, nd *node) {
	for e := range s.n {
		x, y := s.at(nd.in[0], e), s.at(nd.out, e)
		dx, dy := s.gradAt(nd.in[0], e), s.gradAt(nd.out, e)
		for lo := 0; lo < len(x); lo += o.length {
			hi := lo + o.length
			_, inv := o.moments(x[lo:hi])
			normalizeGrad(dx[lo:hi], y[lo:hi], dy[lo:hi], inv)
		}
	}
}

// normalizeGrad adds inv·(dy − mean(dy) − y·mean(dy∘y)).
func normalizeGrad(dx, y, dy []float64, inv float64) {
	n := float64(len(y))
	mean, proj := 0.0, 0.0
	for i, g := range dy {
		mean += g / n
		proj += g * y[i] / n
	}
	for i, g := range dy {
		dx[i] += inv * (g - mean - y[i]*proj)
	}
}
