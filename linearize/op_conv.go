package linearize

// convolve is a convolution: in[1] the weight, cout×(cin/g·taps), in[2] the
// bias if any. tied as in dense.
type convolve struct {
	w    *window
	tied bool
}

func (o *convolve) forward(s *state, nd *node) {
	t, k, m := o.w.factors()
	patches := s.buffer(0, t*k)
	weight := s.val(nd.in[1])
	for e := range s.copies(nd.out) {
		x, out := s.at(nd.in[0], e), s.at(nd.out, e)
		o.w.fillBias(out, s, nd, t)
		for g := range o.w.group {
			o.w.columns(patches, x, g)
			gemm(false, true, general(weight[g*m*k:(g+1)*m*k], m, k), general(patches, t, k), 1, general(out[g*m*t:(g+1)*m*t], m, t))
		}
	}
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
	patches := s.buffer(0, t*k)
	weight := s.val(nd.in[1])
	for e := range s.n {
		dy := s.gradAt(nd.out, e)
		for g := range o.w.group {
			if s.diff(nd.in[0]) {
				gemm(true, false, general(dy[g*m*t:(g+1)*m*t], m, t), general(weight[g*m*k:(g+1)*m*k], m, k), 0, general(patches, t, k))
				o.w.addColumns(s.gradAt(nd.in[0], e), patches, g)
			}
			if o.tied && s.diff(nd.in[1]) {
				o.w.columns(patches, s.at(nd.in[0], e), g)
				gemm(false, false, general(dy[g*m*t:(g+1)*m*t], m, t), general(patches, t, k), 1, general(s.gradAt(nd.in[1], e)[g*m*k:(g+1)*m*k], m, k))
			}
		}
		o.w.tiedBias(s, nd, e, o.tied)
	}
}

func (w *window) tiedBias(s *state, nd *node, e int, tied bool) {
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

func (o *convolveTranspose) forward(s *state, nd *node) {
	t, rows, width := o.w.factors()
	cols := s.buffer(0, t*width)
	weight := s.val(nd.in[1])
	for e := range s.copies(nd.out) {
		x, out := s.at(nd.in[0], e), s.at(nd.out, e)
		o.w.fillBias(out, s, nd, o.w.in)
		for g := range o.w.group {
			gemm(true, false, general(x[g*rows*t:(g+1)*rows*t], rows, t), general(weight[g*rows*width:(g+1)*rows*width], rows, width), 0, general(cols, t, width))
			o.w.addColumns(out, cols, g)
		}
	}
}

func (o *convolveTranspose) backward(s *state, nd *node) {
	t, rows, width := o.w.factors()
	cols := s.buffer(0, t*width)
	weight := s.val(nd.in[1])
	for e := range s.n {
		for g := range o.w.group {
			o.w.columns(cols, s.gradAt(nd.out, e), g)
			if s.diff(nd.in[0]) {
				gemm(false, true, general(weight[g*rows*width:(g+1)*rows*width], rows, width), general(cols, t, width), 1, general(s.gradAt(nd.in[0], e)[g*rows*t:(g+1)*rows*t], rows, t))
			}
			if o.tied && s.diff(nd.in[1]) {
				gemm(false, false, general(s.at(nd.in[0], e)[g*rows*t:(g+1)*rows*t], rows, t), general(cols, t, width), 1, general(s.gradAt(nd.in[1], e)[g*rows*width:(g+1)*rows*width], rows, width))
			}
		}
		o.w.tiedBias(s, nd, e, o.tied)
	}
}

// maxPool takes the largest element of each window of each channel; of equal
// ones the first.
type maxPool struct{ w *window }

func (o *maxPool) forward(s *state, nd *node) {
	w := o.w
	for e := range s.copies(nd.out) {
		x, y := s.at(nd.in[0], e), s.at(nd.out, e)
		for ch := range w.cin {
			plane, out := x[ch*w.in:(ch+1)*w.in], y[ch*w.out:(ch+1)*w.out]
			for t := range out {
				out[t] = plane[w.largest(plane, t)]
			}
		}
	}
}

func (o *maxPool) backward(s *state, nd *node) {
	w := o.w
	for e := range s.n {
		x, dx, dy := s.at(nd.in[0], e), s.gradAt(nd.in[0], e), s.gradAt(nd.out, e)
		for ch := range w.cin {
			plane, to := x[ch*w.in:(ch+1)*w.in], dx[ch*w.in:(ch+1)*w.in]
			for t, g := range dy[ch*w.out : (ch+1)*w.out] {
				if g != 0 {
					to[w.largest(plane, t)] += g
				}
			}
		}
	}
}

// largest returns the position of the largest element of window t. A NaN
// wins, so that it is not lost.
func (w *window) largest(plane []float64, t int) int {
	best := -1
	for _, s := range w.source[t*w.taps : (t+1)*w.taps] {
		if s < 0 {
			continue
		}
		if v := plane[s]; best < 0 || v > plane[best] || v != v {
			best = int(s)
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
