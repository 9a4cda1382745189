package graph

import (
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/vector"
)

// Convolve is a convolution. Input 0 is the image, input 1 the weight, Cout×(Cin/groups·Taps), and input 2, if
// there is one, the bias.
type Convolve struct{ Window *Window }

func (o *Convolve) multiplications() int { return o.Window.multiplications() }

// Forward implements Op.
func (o *Convolve) Forward(s *State, nd *Node) {
	if o.Window.shifts != nil {
		w := o.Window
		_, _, m := w.Factors()
		size := w.shifts.PackedLen(m)
		packed := s.Buffer(0, w.NumGroups*size)
		w.pack(packed, w.shifts, s.val(nd.In[1]), false)
		for e := range s.copies(nd.Out) {
			x, out := s.At(nd.In[0], e), s.At(nd.Out, e)
			for g := range w.NumGroups {
				var bias []float64
				if len(nd.In) > 2 {
					bias = s.val(nd.In[2])[g*m : (g+1)*m]
				}
				w.shifts.Mul(w.plane(out, g), m, packed[g*size:(g+1)*size], bias, w.input(x, g))
			}
		}
		return
	}
	w := o.Window
	t, k, m := w.Factors()
	n := s.copies(nd.Out)
	size := w.joined(n)
	buffer := s.Buffer(0, (k+m)*size*t)
	patches, planes := buffer[:k*size*t], buffer[k*size*t:]
	all, x, weight := s.val(nd.Out), s.val(nd.In[0]), s.val(nd.In[1])
	for lo := 0; lo < n; lo += size {
		size := min(size, n-lo)
		x, cols := x[lo*w.Cin*w.In:], size*t
		for g := range w.NumGroups {
			w.patchRows(patches, x, size, g)
			to := planes[:m*cols]
			if size == 1 {
				to = w.plane(all[lo*w.Cout*t:], g)
			}
			w.fillBias(to, s, nd, g*m, cols)
			Gemm(false, false, w.weights(weight, g), dense.Of(patches[:k*cols], k, cols), 1, dense.Of(to, m, cols))
			for e := range size {
				if size > 1 {
					vector.CopyRows(w.plane(all[(lo+e)*w.Cout*t:], g), t, to[e*t:], cols, 1, m, t)
				}
			}
		}
	}
}

func (w *Window) multiplications() int {
	t, k, m := w.Factors()
	return w.NumGroups * t * k * m
}

// fillBias sets the size elements of every channel of out, from channel first on, to the channel's bias, or to zero
// without a bias.
func (w *Window) fillBias(out []float64, s *State, nd *Node, first, size int) {
	if len(nd.In) < 3 {
		clear(out)
		return
	}
	for ch, b := range s.val(nd.In[2])[first : first+len(out)/size] {
		row := out[ch*size : (ch+1)*size]
		for i := range row {
			row[i] = b
		}
	}
}

// Backward implements Op.
func (o *Convolve) Backward(s *State, nd *Node) {
	w := o.Window
	t, k, m := w.Factors()
	if s.needsGrad(nd.In[0]) {
		dx, dy := s.grad(nd.In[0]), s.grad(nd.Out)
		size, length := w.joined(s.N), 0
		if w.planes != nil {
			size, length = 1, w.planes.PackedLen(k)
		}
		buffer := s.Buffer(0, w.NumGroups*length+(k+m)*size*t)
		packed, buffer := buffer[:w.NumGroups*length], buffer[w.NumGroups*length:]
		if length > 0 {
			w.pack(packed, w.planes, s.val(nd.In[1]), true)
		}
		for lo := 0; lo < s.N; lo += size {
			size := min(size, s.N-lo)
			cols := size * t
			patches := buffer[:k*cols]
			for g := range w.NumGroups {
				// The gradients of a group's patches are (Cin/groups·Taps) × positions.
				from := w.joinPlanes(buffer[k*cols:], dy[lo*w.Cout*t:], size, g)
				if w.planes != nil {
					w.planes.Mul(patches, k, packed[g*length:(g+1)*length], nil, from)
				} else {
					Gemm(true, false, w.weights(s.val(nd.In[1]), g), dense.Of(from, m, cols), 0, dense.Of(patches, k, cols))
				}
				w.addPatchRows(dx[lo*w.Cin*w.In:], patches, size, g)
			}
		}
	}
	w.tiedGradients(s, nd)
}

// tiedGradients adds the gradients for a tied weight and bias.
func (w *Window) tiedGradients(s *State, nd *Node) {
	if !w.Tied && !w.TiedBias {
		return
	}
	for e := range s.N {
		if w.Tied && s.needsGrad(nd.In[1]) {
			w.WeightGradient(s.GradAt(nd.In[1], e), s.At(nd.In[0], e), s.GradAt(nd.Out, e), s.Buffer(0, w.Scratch()), false, 1)
		}
		if len(nd.In) > 2 && s.needsGrad(nd.In[2]) {
			w.AddBiasGradient(s.GradAt(nd.In[2], e), s.GradAt(nd.Out, e))
		}
	}
}

// ConvolveTranspose is a transposed convolution, with the inputs of Convolve. The layer's input is the window's
// output. In terms of the layer its weight is channels-in×(channels-out/groups·Taps).
type ConvolveTranspose struct{ Window *Window } // with Transposed set

func (o *ConvolveTranspose) multiplications() int { return o.Window.multiplications() }

// Forward implements Op.
func (o *ConvolveTranspose) Forward(s *State, nd *Node) {
	t, rows, width := o.Window.Factors()
	cols := s.Buffer(0, o.Window.Scratch())
	weight := s.val(nd.In[1])
	for e := range s.copies(nd.Out) {
		x, out := s.At(nd.In[0], e), s.At(nd.Out, e)
		o.Window.fillBias(out, s, nd, 0, o.Window.In)
		for g := range o.Window.NumGroups {
			Gemm(true, false, dense.Of(weight[g*rows*width:(g+1)*rows*width], rows, width), dense.Of(o.Window.plane(x, g), rows, t), 0, dense.Of(cols, width, t))
			o.Window.addPatchRows(out, cols, 1, g)
		}
	}
}

// Backward implements Op.
func (o *ConvolveTranspose) Backward(s *State, nd *Node) {
	t, rows, width := o.Window.Factors()
	cols := s.Buffer(0, o.Window.Scratch())
	weight := s.val(nd.In[1])
	for e := range s.N {
		if s.needsGrad(nd.In[0]) {
			dx, dy := s.GradAt(nd.In[0], e), s.GradAt(nd.Out, e)
			for g := range o.Window.NumGroups {
				o.Window.PatchRows(cols, dy, g)
				Gemm(false, false, dense.Of(weight[g*rows*width:(g+1)*rows*width], rows, width), dense.Of(cols, width, t), 1, dense.Of(o.Window.plane(dx, g), rows, t))
			}
		}
	}
	o.Window.tiedGradients(s, nd)
}

// MaxPool takes the largest element of each window of each channel. Of equal elements, the first one gets the
// gradient.
type MaxPool struct{ Window *Window }

func (o *MaxPool) multiplications() int { return o.Window.Cin * o.Window.Out * o.Window.Taps }

// A pair is a row of a pool with 2×2 squares: n neighbouring results from out on, which come from 2n elements each
// of the rows at in and at below.
type pair struct{ out, in, below, n int }

// FindPairs prepares a pool whose windows are 2×2 squares that do not overlap. It does nothing for any other pool.
func (w *Window) FindPairs() {
	if w.Taps != 4 || w.ReachesPadding {
		return
	}
	var rows []pair
	for t := range w.Out {
		k := w.Source[4*t : 4*t+4]
		in, below := int(k[0]), int(k[2])
		if int(k[1]) != in+1 || int(k[3]) != below+1 {
			return
		}
		if last := len(rows) - 1; last >= 0 && in == rows[last].in+2*rows[last].n && below == rows[last].below+2*rows[last].n {
			rows[last].n++
			continue
		}
		rows = append(rows, pair{out: t, in: in, below: below, n: 1})
	}
	for i, r := range rows {
		if r.below < r.in+2*r.n || i > 0 && r.in < rows[i-1].below+2*rows[i-1].n {
			return // squares overlap
		}
	}
	w.pairs = rows
}

// Forward implements Op.
func (o *MaxPool) Forward(s *State, nd *Node) {
	w := o.Window
	for e := range s.copies(nd.Out) {
		x, y := s.At(nd.In[0], e), s.At(nd.Out, e)
		for ch := range w.Cin {
			plane, out := x[ch*w.In:(ch+1)*w.In], y[ch*w.Out:(ch+1)*w.Out]
			if w.pairs != nil {
				for _, r := range w.pairs {
					vector.MaxPairs(out[r.out:r.out+r.n], plane[r.in:], plane[r.below:])
				}
				continue
			}
			for t := range out {
				out[t] = plane[w.largest(plane, t)]
			}
		}
	}
}

// Backward implements Op. It finds the largest elements once for all backward passes over a chunk.
func (o *MaxPool) Backward(s *State, nd *Node) {
	w := o.Window
	if w.pairs != nil && !s.Program.Slots[nd.In[0]].Static && !s.touched[nd.In[0]] {
		w := o.Window
		all, _ := s.gradOrNew(nd.In[0])
		if w.In != 4*w.Out {
			clear(all)
		}
		for e := range s.N {
			x, y, dy := s.At(nd.In[0], e), s.At(nd.Out, e), s.GradAt(nd.Out, e)
			for ch := range w.Cin {
				plane, dx := x[ch*w.In:(ch+1)*w.In], all[(e*w.Cin+ch)*w.In:][:w.In]
				top, g := y[ch*w.Out:(ch+1)*w.Out], dy[ch*w.Out:(ch+1)*w.Out]
				for _, r := range w.pairs {
					vector.SpreadPairs(dx[r.in:], dx[r.below:], g[r.out:r.out+r.n], top[r.out:], plane[r.in:], plane[r.below:])
				}
			}
		}
		return
	}
	size := w.Cin * w.Out
	// Get memory for the n positions of the maxima of slot nd.Out. known tells whether the memory already holds
	// this chunk's positions; otherwise they must be filled in.
	slot := nd.Out
	n := s.N * size
	var known bool
	a := s.argmax[slot]
	if a == nil {
		a = new(argmax)
		s.argmax[slot] = a
	}
	if cap(a.at) < n {
		a.at = make([]int32, n)
	}
	known, a.known = a.known, true
	argmax := a.at[:n]
	for e := range s.N {
		x, y, at := s.At(nd.In[0], e), s.At(nd.Out, e), argmax[e*size:(e+1)*size]
		dx, dy := s.GradAt(nd.In[0], e), s.GradAt(nd.Out, e)
		for ch := range w.Cin {
			at, to := at[ch*w.Out:(ch+1)*w.Out], dx[ch*w.In:(ch+1)*w.In]
			if !known {
				plane, top := x[ch*w.In:(ch+1)*w.In], y[ch*w.Out:(ch+1)*w.Out]
				for t := range at {
					at[t] = int32(w.first(plane, t, top[t]))
				}
			}
			for t, g := range dy[ch*w.Out : (ch+1)*w.Out] {
				if g != 0 {
					to[at[t]] += g
				}
			}
		}
	}
}

// first returns the first position in window t with value v.
func (w *Window) first(plane []float64, t int, v float64) int {
	for _, s := range w.Source[t*w.Taps : (t+1)*w.Taps] {
		if s >= 0 && plane[s] == v {
			return int(s)
		}
	}
	return w.largest(plane, t) // v is NaN
}

// largest returns the position of the largest element of window t, or of a NaN in it, so that the result is NaN,
// too. It returns −1 for a window that is all padding.
func (w *Window) largest(plane []float64, t int) int {
	source := w.Source[t*w.Taps : (t+1)*w.Taps]
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
