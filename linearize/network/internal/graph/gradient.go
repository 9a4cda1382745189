package graph

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize"
)

// Outputs returns the chunk's outputs, n×C, checked to be finite.
func (s *State) Outputs(first int) ([]float64, error) {
	f := s.val(s.Prog.Output)[:s.N*s.Prog.C]
	for i, v := range f {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("network: output %d of input row %d is %v", i%s.Prog.C, first+i/s.Prog.C, v)
		}
	}
	return f, nil
}

// GradientTo adds Σ_e J_eᵀ u_e over the chunk to dst, length P.
func (s *State) GradientTo(dst, u []float64) {
	s.Backward(u, func(k int) { s.addSite(dst, k) })
	for _, slot := range s.Prog.Full {
		if !s.Touched[slot] {
			continue
		}
		prm := s.Prog.Params[s.Prog.Slots[slot].Param]
		for e := range s.N {
			dense.Axpy(dst[prm.Offset:prm.Offset+prm.Len()], 1, s.GradAt(slot, e))
		}
	}
}

// addSite adds the gradient of one site's weight and bias.
func (s *State) addSite(dst []float64, k int) {
	st := &s.Prog.Sites[k]
	w, b := s.Prog.Spans(st)
	out := s.Prog.Nodes[st.Node].Out
	if _, ok := st.Layout.(*Window); !ok {
		d := s.Prog.Nodes[st.Node].Op.(*Dense)
		z := mat.NewDense(s.N*d.T, d.Out, s.grad(out))
		a := mat.NewDense(s.N*d.T, d.In, s.val(st.X)[:s.N*d.T*d.In])
		(&linearize.Outer{A: a, Weight: w, Bias: b}).AddGradient(dst, z)
		return
	}
	v := &linearize.Conv{Weight: w, Bias: b, Layout: st.Layout}
	scratch := s.Buffer(2, st.Layout.Scratch())
	for e := range s.N {
		v.AddGradient(dst, s.At(st.X, e), s.GradAt(out, e), scratch)
	}
}
