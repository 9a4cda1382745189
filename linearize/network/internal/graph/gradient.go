package graph

import (
	"fmt"
	"math"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize"
)

// Outputs returns the chunk's outputs, N×C. It returns an error if an output is not finite or an example reads
// outside a table. first is the input row of the chunk's first example, for the error.
func (s *State) Outputs(first int) ([]float64, error) {
	if s.bad != nil {
		err := *s.bad
		err.Row += first
		return nil, &err
	}
	f := s.val(s.Program.Output)[:s.N*s.Program.C]
	for i, v := range f {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("network: output %d of input row %d is %v", i%s.Program.C, first+i/s.Program.C, v)
		}
	}
	return f, nil
}

// AddGradient adds Σ_e J_eᵀ u_e over the examples of the chunk to dst, P numbers; u is N×C.
func (s *State) AddGradient(dst, u []float64) {
	s.Backward(u, func(k int) { s.addPlace(dst, k) })
	s.addFull(dst)
}

// addFull adds the gradients of the parameters that are in no place to dst.
func (s *State) addFull(dst []float64) {
	for _, slot := range s.Program.Full {
		if !s.touched[slot] {
			continue
		}
		prm := s.Program.Params[s.Program.Slots[slot].Param]
		for e := range s.N {
			dense.Axpy(dst[prm.Offset:prm.Offset+prm.Len()], 1, s.GradAt(slot, e))
		}
	}
}

// addPlace adds the gradients of the weight and the bias of place k to dst.
func (s *State) addPlace(dst []float64, k int) {
	st := &s.Program.Places[k]
	w, b := s.Program.Spans(st)
	out := s.Program.Nodes[st.Node].Out
	var weight, bias []float64
	if w != nil {
		weight = dst[w.Offset : w.Offset+w.Len()]
	}
	if b != nil {
		bias = dst[b.Offset : b.Offset+b.Len()]
	}
	// own tells whether the place's weight is the weight of its node. Otherwise it is a recurrent weight of the
	// layer whose input weights the node applies, or a part of a weight.
	stacked, parts := st.Layout.(Stacked)
	own := st.Input == s.Program.Nodes[st.Node].In[0] && (!parts || stacked.M == stacked.Width)
	if d, ok := s.Program.Nodes[st.Node].Op.(*Dense); ok && own { // all examples at once
		rows := PerPosition{T: s.N * d.T, K: d.In, M: d.Out, Team: s.Team}
		st.addGradient(rows, weight, bias, s.val(st.Input)[:rows.T*d.In], s.grad(out), nil, 1)
		return
	}
	if st.Table != nil {
		for e := range s.N {
			st.Table.addGradient(weight, s.At(st.Input, e), s.GradAt(out, e))
		}
		return
	}
	if w, ok := st.Layout.(*Window); ok {
		x, z := s.val(st.Input), s.grad(out)
		if weight != nil {
			size := w.joined(s.N)
			scratch := s.Buffer(2, w.gradientScratch(size))
			in, to := s.Program.Slots[st.Input].Size, s.Program.Slots[out].Size
			for lo := 0; lo < s.N; lo += size {
				w.weightGradient(weight, x[lo*in:], z[lo*to:], min(size, s.N-lo), scratch, 1)
			}
		}
		for e := 0; e < s.N && bias != nil; e++ {
			w.AddBiasGradient(bias, s.GradAt(out, e))
		}
		return
	}
	scratch := s.Buffer(2, st.Layout.Scratch())
	for e := range s.N {
		st.addGradient(st.Layout, weight, bias, s.At(st.Input, e), s.GradAt(out, e), scratch, 1)
	}
}

// RowTo writes the gradients of the weight and the bias of place k in example e, one after the other, to the front
// of row, which must hold zeros.
func (s *State) RowTo(row []float64, k, e int) {
	st := &s.Program.Places[k]
	var weight, bias []float64
	if st.Weight >= 0 {
		weight = row[:s.Program.Params[st.Weight].Len()]
	}
	if st.Bias >= 0 {
		bias = row[len(weight):][:s.Program.Params[st.Bias].Len()]
	}
	out := s.Program.Nodes[st.Node].Out
	st.addGradient(st.Layout, weight, bias, s.At(st.Input, e), s.GradAt(out, e), s.Buffer(2, st.Layout.Scratch()), 0)
}

// addGradient writes beta·weight plus the gradient of the weight to weight, and adds the gradient of the bias to
// bias. x is the layer's input, and z the gradient of its result. A nil weight or bias is skipped.
func (st *Place) addGradient(at linearize.Positions, weight, bias, x, z, scratch []float64, beta float64) {
	if weight != nil {
		at.WeightGradient(weight, x, z, scratch, st.Transposed, beta)
	}
	if bias != nil {
		at.AddBiasGradient(bias, z)
	}
}
