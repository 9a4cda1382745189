package linearize

import (
	"github.com/funcgp/funcgp/internal/dense"
)

// convolve is a convolution: in[1] the weight, cout×(cin/g·taps), in[2] the
// bias if any. tied as in dense.
type convolve struct {
	w    *window
	tied bool
}

func (o *convolve) products() int { return o.w.products() }

func (o *convolve) forward(s *state, nd *node) {
	t, k, m := o.w.factors()
	patches := s.buffer(0, o.w.scratch())
	weight := s.val(nd.in[1])
	for e := range s.copies(nd.out) {
		x, out := s.at(nd.in[0], e), s.at(nd.out, e)
		o.w.fillBias(out, s, nd, t)
		for g := range o.w.group {
			o.w.patchRows(patches, x, g)
			gemm(false, false, dense.Of(weight[g*m*k:(g+1)*m*k], m, k), dense.Of(patches, k, t), 1, dense.Of(o.w.plane(out, g), m, t))
		}
	}
}

// products returns the multiplications of a convolution.
func (w *window) products() int {
	t, k, m := w.factors()
	return w.group * t * k * m
}

// fillBias sets every channel of the result, size elements each, to its bias,
// or to zero.
func (w *window) fillBias(out []float64, s *state, nd *node, size int) {
	if len(nd.in) < 3 {
		clear(out)
		return
	}
	for ch, b := range s.val(nd.in[2]) {
		row := out[ch*size : (ch+1)*size]
		for i := range row {
			row[i] = b
		}
	}
}

func (o *convolve) backward(s *state, nd *node) {
	t, k, m := o.w.factors()
	patches := s.buffer(0, o.w.scratch())
	weight := s.val(nd.in[1])
	for e := range s.n {
		dy := s.gradAt(nd.out, e)
		if s.diff(nd.in[0]) {
			dx := s.gradAt(nd.in[0], e)
			for g := range o.w.group {
				gemm(true, false, dense.Of(weight[g*m*k:(g+1)*m*k], m, k), dense.Of(o.w.plane(dy, g), m, t), 0, dense.Of(patches, k, t))
				o.w.addPatchRows(dx, patches, g)
			}
		}
		o.w.tiedGradient(s, nd, e, o.tied, patches)
	}
}

// tiedGradient adds the gradients of a weight and bias that appear elsewhere
// too.
func (w *window) tiedGradient(s *state, nd *node, e int, tied bool, scratch []float64) {
	if tied && s.diff(nd.in[1]) {
		w.weightGradient(s.gradAt(nd.in[1], e), s.at(nd.in[0], e), s.gradAt(nd.out, e), scratch, false, 1)
	}
	if tied && len(nd.in) > 2 && s.diff(nd.in[2]) {
		w.channelSums(s.gradAt(nd.in[2], e), s.gradAt(nd.out, e))
	}
}

// convolveTranspose runs a convolution backwards: the layer's input has the
// shape of the window's output. in[1] is the weight, cout×(cin/g·taps) in the
// window's terms, which is channels-in × channels-out/g × taps in the layer's.
type convolveTranspose struct {
	w    *window // with transposedUsage
	tied bool
}

func (o *convolveTranspose) products() int { return o.w.products() }

func (o *convolveTranspose) forward(s *state, nd *node) {
	t, rows, width := o.w.factors()
	cols := s.buffer(0, o.w.scratch())
	weight := s.val(nd.in[1])
	for e := range s.copies(nd.out) {
		x, out := s.at(nd.in[0], e), s.at(nd.out, e)
		o.w.fillBias(out, s, nd, o.w.in)
		for g := range o.w.group {
			gemm(true, false, dense.Of(weight[g*rows*width:(g+1)*rows*width], rows, width), dense.Of(o.w.plane(x, g), rows, t), 0, dense.Of(cols, width, t))
			o.w.addPatchRows(out, cols, g)
		}
	}
}

func (o *convolveTranspose) backward(s *state, nd *node) {
	t, rows, width := o.w.factors()
	cols := s.buffer(0, o.w.scratch())
	weight := s.val(nd.in[1])
	for e := range s.n {
		if s.diff(nd.in[0]) {
			dx, dy := s.gradAt(nd.in[0], e), s.gradAt(nd.out, e)
			for g := range o.w.group {
				o.w.patchRows(cols, dy, g)
				gemm(false, false, dense.Of(weight[g*rows*width:(g+1)*rows*width], rows, width), dense.Of(cols, width, t), 1, dense.Of(o.w.plane(dx, g), rows, t))
			}
		}
		o.w.tiedGradient(s, nd, e, o.tied, cols)
	}
}

// maxPool takes the largest element of each window of each channel; of equal
// ones the first.
type maxPool struct{ w *window }

func (o *maxPool) products() int { return o.w.cin * o.w.out * o.w.taps }

func (o *maxPool) forward(s *state, nd *node) {
	w := o.w
	for e := range s.copies(nd.out) {
		x, y := s.at(nd.in[0], e), s.at(nd.out, e)
		for ch := range w.cin {
			plane, out := x[ch*w.in:(ch+1)*w.in], y[ch*w.out:(ch+1)*w.out]
			if w.taps == 4 && !w.reachesPadding {
				for t := range out {
					k := w.source[4*t : 4*t+4 : 4*t+4]
					out[t] = max(max(plane[k[0]], plane[k[1]]), max(plane[k[2]], plane[k[3]]))
				}
				continue
			}
			for t := range out {
				out[t] = plane[w.largest(plane, t)]
			}
		}
	}
}

// backward looks for the largest elements once for all backward passes of a
// chunk.
func (o *maxPool) backward(s *state, nd *node) {
	w := o.w
	size := w.cin * w.out
	place, known := s.places(nd.out, s.n*size)
	for e := range s.n {
		x, y, at := s.at(nd.in[0], e), s.at(nd.out, e), place[e*size:(e+1)*size]
		dx, dy := s.gradAt(nd.in[0], e), s.gradAt(nd.out, e)
		for ch := range w.cin {
			at, to := at[ch*w.out:(ch+1)*w.out], dx[ch*w.in:(ch+1)*w.in]
			if !known {
				plane, top := x[ch*w.in:(ch+1)*w.in], y[ch*w.out:(ch+1)*w.out]
				for t := range at {
					at[t] = int32(w.first(plane, t, top[t]))
				}
			}
			for t, g := range dy[ch*w.out : (ch+1)*w.out] {
				if g != 0 {
					to[at[t]] += g
				}
			}
		}
	}
}

// first returns the first position of window t that holds v.
func (w *window) first(plane []float64, t int, v float64) int {
	for _, s := range w.source[t*w.taps : (t+1)*w.taps] {
		if s >= 0 && plane[s] == v {
			return int(s)
		}
	}
	return w.largest(plane, t) // v is NaN
}

// largest returns the position of the largest element of window t. A NaN
// wins, so that it is not lost.
func (w *window) largest(plane []float64, t int) int {
	source := w.source[t*w.taps : (t+1)*w.taps]
	best := -1
	for len(source) > 0 && best < 0 {
		best, source = int(source[0]), source[1:]
	}
	if best < 0 {
		return best
	}
	top := plane[best]
	for _, s := range source {
		if s >= 0 && !(plane[s] <= top) && top == top {
			best, top = int(s), plane[s]
		}
	}
	return best
}

// averagePool takes the mean of each window of each channel; share[t] is one
// over the number of positions counted.
type averagePool struct {
	w     *window
	share []float64
}

func (o *averagePool) products() int { return o.w.cin * o.w.out * o.w.taps }

func (o *averagePool) each(do func(to, from int, share float64)) {
	w := o.w
	for ch := range w.cin {
		for t := range w.out {
			for _, s := range w.source[t*w.taps : (t+1)*w.taps] {
				if s >= 0 {
					do(ch*w.out+t, ch*w.in+int(s), o.share[t])
				}
			}
		}
	}
}

func (o *averagePool) forward(s *state, nd *node) {
	for e := range s.copies(nd.out) {
		x, y := s.at(nd.in[0], e), s.at(nd.out, e)
		clear(y)
		o.each(func(to, from int, share float64) { y[to] += share * x[from] })
	}
}

func (o *averagePool) backward(s *state, nd *node) {
	for e := range s.n {
		dx, dy := s.gradAt(nd.in[0], e), s.gradAt(nd.out, e)
		o.each(func(to, from int, share float64) { dx[from] += share * dy[to] })
	}
}
