package linearize

import (
	"github.com/funcgp/funcgp/internal/dense"
)

// index copies elements: out[i] = in[source[i]], or fill where source[i] < 0.
// Transpose, Slice, Split, Gather, Pad, Resize and Expand are all an index.
type index struct {
	source []int32
	fill   float64
}

func (o *index) forward(s *state, nd *node) {
	for e := range s.copies(nd.out) {
		in, out := s.at(nd.in[0], e), s.at(nd.out, e)
		for i, j := range o.source {
			if j < 0 {
				out[i] = o.fill
			} else {
				out[i] = in[j]
			}
		}
	}
}

func (o *index) backward(s *state, nd *node) {
	for e := range s.n {
		dx, dy := s.gradAt(nd.in[0], e), s.gradAt(nd.out, e)
		for i, j := range o.source {
			if j >= 0 {
				dx[j] += dy[i]
			}
		}
	}
}

// concat lays its inputs side by side: outer slabs of width[k] elements from
// input k each.
type concat struct {
	outer int
	width []int
}

func (o *concat) each(s *state, nd *node, count int, do func(input, e, from, to, width int)) {
	total := 0
	for _, w := range o.width {
		total += w
	}
	for e := range count {
		at := 0
		for k, w := range o.width {
			for i := range o.outer {
				do(k, e, i*w, i*total+at, w)
			}
			at += w
		}
	}
}

func (o *concat) forward(s *state, nd *node) {
	o.each(s, nd, s.copies(nd.out), func(k, e, from, to, w int) {
		copy(s.at(nd.out, e)[to:to+w], s.at(nd.in[k], e)[from:from+w])
	})
}

func (o *concat) backward(s *state, nd *node) {
	o.each(s, nd, s.n, func(k, e, from, to, w int) {
		if s.diff(nd.in[k]) {
			dense.Axpy(s.gradAt(nd.in[k], e)[from:from+w], 1, s.gradAt(nd.out, e)[to:to+w])
		}
	})
}

// reduce sums the inputs with the same target and multiplies by scale.
type reduce struct {
	target []int32 // for each input element
	scale  float64
}

func (o *reduce) forward(s *state, nd *node) {
	for e := range s.copies(nd.out) {
		in, out := s.at(nd.in[0], e), s.at(nd.out, e)
		clear(out)
		for i, t := range o.target {
			out[t] += in[i]
		}
		for i := range out {
			out[i] *= o.scale
		}
	}
}

func (o *reduce) backward(s *state, nd *node) {
	for e := range s.n {
		dx, dy := s.gradAt(nd.in[0], e), s.gradAt(nd.out, e)
		for i, t := range o.target {
			dx[i] += o.scale * dy[t]
		}
	}
}
