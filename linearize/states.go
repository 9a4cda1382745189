package linearize

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
)

// outputs returns the chunk's outputs, n×C, checked to be finite.
func (s *state) outputs(first int) ([]float64, error) {
	f := s.val(s.prog.output)[:s.n*s.prog.c]
	for i, v := range f {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("linearize: output %d of input row %d is %v", i%s.prog.c, first+i/s.prog.c, v)
		}
	}
	return f, nil
}

// gradientTo adds Σ_e J_eᵀ u_e over the chunk to dst, length P.
func (s *state) gradientTo(dst, u []float64) {
	s.backward(u, func(k int) { s.addSite(dst, k) })
	for _, slot := range s.prog.full {
		if !s.touched[slot] {
			continue
		}
		prm := s.prog.params[s.prog.slots[slot].param]
		for e := range s.n {
			dense.Axpy(dst[prm.Offset:prm.Offset+prm.Len()], 1, s.gradAt(slot, e))
		}
	}
}

// addSite adds the gradient of one site's weight and bias.
func (s *state) addSite(dst []float64, k int) {
	st := &s.prog.sites[k]
	w, b := s.prog.spans(st)
	out := s.prog.nodes[st.node].out
	if _, ok := st.layout.(*window); !ok {
		d := s.prog.nodes[st.node].op.(*denseOp)
		z := mat.NewDense(s.n*d.t, d.out, s.grad(out))
		a := mat.NewDense(s.n*d.t, d.in, s.val(st.x)[:s.n*d.t*d.in])
		(&Outer{A: a, Weight: w, Bias: b}).addGradient(dst, z)
		return
	}
	v := &Conv{Weight: w, Bias: b, layout: st.layout}
	scratch := s.buffer(2, st.layout.scratch())
	for e := range s.n {
		v.addGradient(dst, s.at(st.x, e), s.gradAt(out, e), scratch)
	}
}
