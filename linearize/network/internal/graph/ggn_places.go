package graph

import (
	"github.com/funcgp/funcgp/internal/dense"
)

// addSquares adds the squares of the gradients of a step's parameters, summed over the examples, to dst. It leaves
// some squares to flush: the squares of a dense layer that is used once, and the squares in stacks.
func (b *Backpropagator) addSquares(dst []float64, g *step) {
	s := b.s
	for _, k := range g.Places {
		st := &s.Program.Places[k]
		out := s.Program.Nodes[st.Node].Out
		switch {
		case !s.touched[out]:
		case st.Table != nil:
			b.addTable(dst, g, k)
		case st.Layout == nil:
			if b.sums[k] == nil {
				b.sums[k] = make([]float64, s.N*s.Program.Slots[out].Size)
			}
			addSquaresOf(b.sums[k], s.grad(out))
		default:
			if w, ok := st.Layout.(*Window); ok && !w.Transposed {
				// Put the gradients of place k for one row of A on its stack.
				s := b.s
				out := s.Program.Nodes[s.Program.Places[k].Node].Out
				size := s.Program.Slots[out].Size / w.NumGroups
				st := b.stacks[k]
				if st == nil {
					st = new(stack)
					b.stacks[k] = st
				}
				st.g = sized(st.g, s.N*w.NumGroups*stackRows*size)
				for e := range s.N {
					for g := range w.NumGroups {
						copy(st.g[((e*w.NumGroups+g)*stackRows+st.rows)*size:][:size], s.GradAt(out, e)[g*size:])
					}
				}
				if st.rows++; st.rows == stackRows {
					b.addStack(dst, k, w)
				}
				continue
			}
			// Add the squares of a place's gradients, one example at a time.
			s := b.s
			st := &s.Program.Places[k]
			weight, bias := s.Program.parameters(dst, st)
			b.tile = sized(b.tile, len(weight)+len(bias))
			for e := range s.N {
				clear(b.tile)
				s.RowTo(b.tile, k, e)
				addSquaresOf(weight, b.tile)
				addSquaresOf(bias, b.tile[len(weight):])
			}
		}
	}
	for _, slot := range g.Full {
		if !s.touched[slot] {
			continue
		}
		prm := s.Program.Params[s.Program.Slots[slot].Param]
		for e := range s.N {
			addSquaresOf(dst[prm.Offset:prm.Offset+prm.Len()], s.GradAt(slot, e))
		}
	}
}

// parameters returns the parts of dst for a place's weight and bias; nil where they are no parameters.
func (p *Program) parameters(dst []float64, st *Place) (weight, bias []float64) {
	part := func(i int) []float64 {
		if i < 0 {
			return nil
		}
		return dst[p.Params[i].Offset:][:p.Params[i].Len()]
	}
	return part(st.Weight), part(st.Bias)
}

// addTable adds the squares of the gradients of a table. It does so once, at the first place of a step that reads
// the table. For a row that an example reads at several positions, the gradient is the sum over these positions.
func (b *Backpropagator) addTable(dst []float64, g *step, k int) {
	s := b.s
	weight, _ := s.Program.parameters(dst, &s.Program.Places[k])
	var readers []*Place
	for _, i := range g.Places {
		if st := &s.Program.Places[i]; st.Weight == s.Program.Places[k].Weight {
			if i < k {
				return
			}
			readers = append(readers, st)
		}
	}
	width := s.Program.Places[k].Table.Inner
	for e := range s.N {
		sums := map[int][]float64{} // for each row of the table
		var rows []int
		for _, st := range readers {
			nd := &s.Program.Nodes[st.Node]
			if !s.touched[nd.Out] {
				continue
			}
			read := s.Buffer(3, s.Program.Slots[st.Input].Size)
			st.Table.RowsTo(read, s, nd, e)
			for t, v := range read {
				row := int(v)
				if row < 0 {
					continue
				}
				if sums[row] == nil {
					sums[row] = make([]float64, width)
					rows = append(rows, row)
				}
				dense.Axpy(sums[row], 1, s.GradAt(nd.Out, e)[t*width:(t+1)*width])
			}
		}
		for _, row := range rows {
			addSquaresOf(weight[row*width:(row+1)*width], sums[row])
		}
	}
}

// A stack has gradients of a convolution's result for several rows of A, so that one product with an example's
// patches gives the weight's gradients for all of them.
type stack struct {
	rows int
	g    []float64 // examples × groups × stackRows × the group's result
}

// stackRows is the number of rows in a full stack.
const stackRows = 16

// addStack adds the squares of the gradients in the stack of place k, and empties it.
func (b *Backpropagator) addStack(dst []float64, k int, w *Window) {
	s, st := b.s, b.stacks[k]
	place := &s.Program.Places[k]
	weight, bias := s.Program.parameters(dst, place)
	t, width, m := w.Factors()
	patches := s.Buffer(2, w.Scratch())
	b.tile = sized(b.tile, st.rows*m*width)
	for e := range s.N {
		for g := range w.NumGroups {
			z := dense.Of(st.g[(e*w.NumGroups+g)*stackRows*m*t:][:st.rows*m*t], st.rows*m, t)
			if weight != nil {
				w.PatchRows(patches, s.At(place.Input, e), g)
				Gemm(false, true, z, dense.Of(patches[:width*t], width, t), 0, dense.Of(b.tile, st.rows*m, width))
				for r := range st.rows {
					addSquaresOf(weight[g*m*width:(g+1)*m*width], b.tile[r*m*width:])
				}
			}
			for i := range z.Rows {
				if bias == nil {
					break
				}
				sum := 0.0
				for _, v := range dense.Row(z, i) {
					sum += v
				}
				bias[g*m+i%m] += sum * sum
			}
		}
	}
	st.rows = 0
}

// flush adds the squares that addSquares left: the squares in stacks and of dense layers. For a dense layer they
// are Σ_n s_n (a_n²)ᵀ, with the squared gradients s_n of the result and the layer's input a_n.
func (b *Backpropagator) flush(dst []float64, g *step) {
	for _, k := range g.Places {
		if st := b.stacks[k]; st != nil && st.rows > 0 {
			b.addStack(dst, k, b.s.Program.Places[k].Layout.(*Window))
		}
		if sum := b.sums[k]; sum != nil {
			b.addDiagonal(dst, k, sum)
			delete(b.sums, k)
		}
	}
}

// addDiagonal adds the squares for a place's weight and bias, for M = diag(m) at the place's result, m N×size.
func (b *Backpropagator) addDiagonal(dst []float64, k int, m []float64) {
	s := b.s
	st := &s.Program.Places[k]
	weight, bias := s.Program.parameters(dst, st)
	size, in := s.Program.Slots[s.Program.Nodes[st.Node].Out].Size, s.Program.Slots[st.Input].Size
	x := s.Buffer(3, s.N*in)
	for e := range s.N {
		for i, v := range s.At(st.Input, e) {
			x[e*in+i] = v * v
		}
	}
	if st.Layout == nil { // all examples at once
		st.addGradient(PerPosition{T: s.N, K: in, M: size, Team: s.Team}, weight, bias, x, m, nil, 1)
		return
	}
	scratch := s.Buffer(2, st.Layout.Scratch())
	for e := range s.N {
		st.addGradient(st.Layout, weight, bias, x[e*in:(e+1)*in], m[e*size:(e+1)*size], scratch, 1)
	}
}
