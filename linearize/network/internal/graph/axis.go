package graph

import (
	"github.com/funcgp/funcgp/internal/dense"
)

// AxisMap is a sparse affine map along the middle axis of an Outer×In×Inner
// tensor, such as the interpolation of Resize along one axis:
//
//	out[o,i,n] = Offset[i] + Σ_k Weight[k]·in[o,Source[k],n], k from First[i] to First[i+1]−1
type AxisMap struct {
	Outer, In, Inner int
	First, Source    []int32
	Weight           []float64
	Offset           []float64 // nil for zeros
}

// Out is the length of the axis in the result.
func (o *AxisMap) Out() int { return len(o.First) - 1 }

func (o *AxisMap) multiplications() int { return o.Outer * o.Inner * len(o.Weight) }

// Forward implements Op.
func (o *AxisMap) Forward(s *State, nd *Node) {
	for e := range s.copies(nd.Out) {
		for b := range o.Outer {
			in, out := s.At(nd.In[0], e)[b*o.In*o.Inner:], s.At(nd.Out, e)[b*o.Out()*o.Inner:]
			for i := range o.Out() {
				source, weight, offset := o.row(i)
				if o.Inner == 1 {
					for k, j := range source {
						offset += weight[k] * in[j]
					}
					out[i] = offset
					continue
				}
				row := out[i*o.Inner : (i+1)*o.Inner]
				for n := range row {
					row[n] = offset
				}
				for k, j := range source {
					dense.Axpy(row, weight[k], in[int(j)*o.Inner:][:o.Inner])
				}
			}
		}
	}
}

// row returns what element i of the axis reads, with which weights and offset.
func (o *AxisMap) row(i int) (source []int32, weight []float64, offset float64) {
	lo, hi := o.First[i], o.First[i+1]
	if o.Offset != nil {
		offset = o.Offset[i]
	}
	return o.Source[lo:hi], o.Weight[lo:hi], offset
}

// Backward implements Op.
func (o *AxisMap) Backward(s *State, nd *Node) {
	for e := range s.N {
		for b := range o.Outer {
			dx, dy := s.GradAt(nd.In[0], e)[b*o.In*o.Inner:], s.GradAt(nd.Out, e)[b*o.Out()*o.Inner:]
			for i := range o.Out() {
				source, weight, _ := o.row(i)
				if o.Inner == 1 {
					for k, j := range source {
						dx[j] += weight[k] * dy[i]
					}
					continue
				}
				for k, j := range source {
					dense.Axpy(dx[int(j)*o.Inner:][:o.Inner], weight[k], dy[i*o.Inner:(i+1)*o.Inner])
				}
			}
		}
	}
}
