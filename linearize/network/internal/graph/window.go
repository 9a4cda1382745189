package graph

import (
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/vector"
	"github.com/funcgp/funcgp/linearize"
)

// A Window is the geometry of a convolution or a pool: the input position that each kernel tap reads at each output
// position. In a transposed convolution, the layer's result is the window's input, and the layer's input the
// window's output.
type Window struct {
	NumGroups      int     // groups of channels
	Cin, Cout      int     // channels of the window's input and output, over all groups
	Taps           int     // positions of the kernel
	In, Out        int     // spatial positions of the window's input and output
	Source         []int32 // Out×Taps: the input position read, or −1 in the padding
	ReachesPadding bool    // some element of Source is −1
	Transposed     bool    // the layer is a ConvTranspose
	Tied, TiedBias bool    // as in Dense, for a convolution

	runs   []run  // of all taps, in order
	ofTap  []int  // runs[ofTap[k]:ofTap[k+1]] belong to tap k
	padded []bool // taps that read the padding somewhere

	shifts *dense.Shifts // reads a group's patches in place; nil where they are gathered
	planes *dense.Shifts // reads a group's output in place, or nil
	pairs  []pair        // for a pool with 2×2 squares
}

// A run is a rectangle of output positions at which a tap reads input positions in a regular pattern: rows of n
// neighbouring output positions that are rowOut apart. The input positions are step apart within a row, and rowIn
// from row to row.
type run struct{ out, in, n, step, rows, rowOut, rowIn int }

// FindRuns prepares the window for PatchRows. Call it once before the window is used in a convolution. A pool does
// not need it.
func (w *Window) FindRuns() {
	w.ofTap, w.padded = make([]int, w.Taps+1), make([]bool, w.Taps)
	for k := range w.Taps {
		// Find the runs of a tap with one row.
		var rows []run
		for t := range w.Out {
			s := int(w.Source[t*w.Taps+k])
			if s < 0 {
				w.padded[k] = true
				continue
			}
			if last := len(rows) - 1; last >= 0 {
				r := &rows[last]
				if r.n == 1 && s > r.in {
					r.step = s - r.in
				}
				if r.out+r.n == t && r.in+r.n*r.step == s {
					r.n++
					continue
				}
			}
			rows = append(rows, run{out: t, in: s, n: 1, step: 1, rows: 1})
		}
		for _, r := range rows {
			if last := len(w.runs) - 1; last < w.ofTap[k] || !w.runs[last].extend(r) {
				w.runs = append(w.runs, r)
			}
		}
		w.ofTap[k+1] = len(w.runs)
	}
	// Find out whether all taps read the same rectangle at different offsets.
	k, m := w.Cin/w.NumGroups*w.Taps, w.Cout/w.NumGroups
	if len(w.runs) != w.Taps || k*m > shiftedWeights {
		return
	}
	first := w.runs[0]
	offset := make([]int, 0, k)
	for ch := range w.Cin / w.NumGroups {
		for _, r := range w.runs {
			offset = append(offset, ch*w.In+r.in)
			r.in = first.in
			if r != first || r.step != 1 || r.n*r.rows != w.Out {
				return
			}
		}
	}
	if first.rows == 1 {
		first.rowIn = first.n
	}
	w.shifts = usable(dense.NewShifts(offset, first.rows, first.n, first.rowIn))
	if w.shifts == nil {
		return
	}
	planes := make([]int, m)
	for i := range planes {
		planes[i] = i * w.Out
	}
	w.planes = usable(dense.NewShifts(planes, 1, w.Out, w.Out))
}

// shiftedWeights is the most weights of a group for which patches are read in place, so that the weights stay in
// the second-level cache.
const shiftedWeights = 1 << 15

func usable(s *dense.Shifts) *dense.Shifts {
	if !s.Usable() {
		return nil
	}
	return s
}

// input returns a group's part of the window's input x.
func (w *Window) input(x []float64, group int) []float64 {
	size := w.Cin / w.NumGroups * w.In
	return x[group*size : (group+1)*size]
}

// weights returns a group's part of all stored weights, m×k.
func (w *Window) weights(all []float64, group int) blas64.General {
	k, m := w.Cin/w.NumGroups*w.Taps, w.Cout/w.NumGroups
	return dense.Of(all[group*m*k:(group+1)*m*k], m, k)
}

// pack writes the weights of all groups, transposed if trans, to dst as left factors of s.
func (w *Window) pack(dst []float64, s *dense.Shifts, weights []float64, trans bool) {
	size := len(dst) / w.NumGroups
	for g := range w.NumGroups {
		s.Pack(dst[g*size:(g+1)*size], w.weights(weights, g), trans)
	}
}

// extend appends row, a run with one row, to r as its last row, if it fits.
func (r *run) extend(row run) bool {
	if row.n == 1 {
		row.step = r.step
	}
	if row.n != r.n || row.step != r.step || row.in <= r.in {
		return false
	}
	if r.rows == 1 {
		r.rowOut, r.rowIn = row.out-r.out, row.in-r.in
	}
	if row.out != r.out+r.rows*r.rowOut || row.in != r.in+r.rows*r.rowIn {
		return false
	}
	r.rows++
	return true
}

var _ linearize.Positions = (*Window)(nil)

// Groups implements linearize.Positions.
func (w *Window) Groups() int { return w.NumGroups }

// Factors implements linearize.Positions.
func (w *Window) Factors() (t, k, m int) {
	if w.Transposed {
		// The weight is stored channels-of-x × (channels-of-y/g · taps).
		return w.Out, w.Cout / w.NumGroups, w.Cin / w.NumGroups * w.Taps
	}
	return w.Out, w.Cin / w.NumGroups * w.Taps, w.Cout / w.NumGroups
}

// Patches implements linearize.Positions.
func (w *Window) Patches(dst, x []float64, group int) {
	if w.Transposed {
		transposeTo(dst, w.plane(x, group), w.Cout/w.NumGroups, w.Out)
		return
	}
	w.transposedRows(dst, x, group)
}

// Gradients implements linearize.Positions.
func (w *Window) Gradients(dst, g []float64, group int) {
	if w.Transposed {
		w.transposedRows(dst, g, group)
		return
	}
	transposeTo(dst, w.plane(g, group), w.Cout/w.NumGroups, w.Out)
}

// plane returns a group's part of the window's output g, Cout/groups×Out.
func (w *Window) plane(g []float64, group int) []float64 {
	size := w.Cout / w.NumGroups * w.Out
	return g[group*size : (group+1)*size]
}

// transposedRows gathers the patches of a group as Out×(Cin/groups·Taps).
func (w *Window) transposedRows(dst, x []float64, group int) {
	x = w.input(x, group)
	for t := range w.Out {
		source := w.Source[t*w.Taps : (t+1)*w.Taps]
		for lo := 0; lo < len(x); lo += w.In {
			plane, to := x[lo:lo+w.In], dst[:len(source)]
			dst = dst[w.Taps:]
			for k, s := range source {
				if to[k] = 0; s >= 0 {
					to[k] = plane[s]
				}
			}
		}
	}
}

// Scratch implements linearize.Positions.
func (w *Window) Scratch() int { return w.gradientScratch(1) }

// PatchRows gathers the patches of a group from the window's input x as (Cin/groups·Taps)×Out.
func (w *Window) PatchRows(dst, x []float64, group int) { w.patchRows(dst, x, 1, group) }

// patchRows gathers the patches of a group from the window's inputs x of n examples, one after the other, as
// (Cin/groups·Taps)×n·Out.
func (w *Window) patchRows(dst, x []float64, n, group int) {
	channels, size := w.Cin/w.NumGroups, w.Cin*w.In
	for ch := range channels {
		plane := x[(group*channels+ch)*w.In:]
		for k := range w.Taps {
			row := dst[:n*w.Out]
			dst = dst[n*w.Out:]
			if w.padded[k] {
				clear(row)
			}
			for _, r := range w.runs[w.ofTap[k]:w.ofTap[k+1]] {
				if r.rows == 1 {
					vector.CopyRows(row[r.out:], w.Out, plane[r.in:], size, r.step, n, r.n)
					continue
				}
				for e := range n {
					vector.CopyRows(row[e*w.Out+r.out:], r.rowOut, plane[e*size+r.in:], r.rowIn, r.step, r.rows, r.n)
				}
			}
		}
	}
}

// addPatchRows is the adjoint of patchRows: it adds patches, (Cin/groups·Taps)×n·Out, to the positions in x from
// which they were gathered.
func (w *Window) addPatchRows(x, src []float64, n, group int) {
	channels, size := w.Cin/w.NumGroups, w.Cin*w.In
	for ch := range channels {
		plane := x[(group*channels+ch)*w.In:]
		for k := range w.Taps {
			row := src[:n*w.Out]
			src = src[n*w.Out:]
			for _, r := range w.runs[w.ofTap[k]:w.ofTap[k+1]] {
				if r.rows == 1 {
					vector.AddRows(plane[r.in:], size, r.step, row[r.out:], w.Out, n, r.n)
					continue
				}
				for e := range n {
					vector.AddRows(plane[e*size+r.in:], r.rowIn, r.step, row[e*w.Out+r.out:], r.rowOut, r.rows, r.n)
				}
			}
		}
	}
}

// joinedColumns is about how many columns, positions of examples, a product of a convolution has where one example
// has fewer.
const joinedColumns = 192

// joined returns how many of n examples a product of the convolution takes.
func (w *Window) joined(n int) int { return max(1, min(n, joinedColumns/w.Out)) }

// joinPlanes copies a group's part of n outputs of the window, one after the other in x, to dst,
// Cout/groups×n·Out. Rows of one example alone need no copy: the result is then in x.
func (w *Window) joinPlanes(dst, x []float64, n, group int) []float64 {
	if n == 1 {
		return w.plane(x, group)
	}
	m := w.Cout / w.NumGroups
	for e := range n {
		vector.CopyRows(dst[e*w.Out:], n*w.Out, w.plane(x[e*w.Cout*w.Out:], group), w.Out, 1, m, w.Out)
	}
	return dst[:m*n*w.Out]
}

// WeightGradient implements linearize.Positions.
func (w *Window) WeightGradient(dst, x, g, scratch []float64, _ bool, beta float64) {
	w.weightGradient(dst, x, g, 1, scratch, beta)
}

// weightGradient is WeightGradient for the sum over n examples, one after the other in x and g, in scratch memory of
// gradientScratch numbers. With gathered patches it computes the product of patches, (Cin/groups·Taps)×positions, and
// gradients. Where it is smaller than they are, it is transposed, as the patches are then read in place.
func (w *Window) weightGradient(dst, x, g []float64, n int, scratch []float64, beta float64) {
	if w.Transposed {
		x, g = g, x // the convolution's input is the layer's result
	}
	k, m := w.Cin/w.NumGroups*w.Taps, w.Cout/w.NumGroups
	if w.shifts != nil {
		for e := range n {
			for group := range w.NumGroups {
				w.shifts.MulTrans(dst[group*m*k:(group+1)*m*k], m, w.plane(g[e*w.Cout*w.Out:], group), w.input(x[e*w.Cin*w.In:], group), scratch, beta)
			}
			beta = 1
		}
		return
	}
	t := n * w.Out
	patches, planes := scratch[:k*t], scratch[k*t:]
	small := planes[max(0, len(planes)-k*m):]
	for group := range w.NumGroups {
		w.patchRows(patches, x, n, group)
		plane := w.joinPlanes(planes, g, n, group)
		dst := dst[group*m*k : (group+1)*m*k]
		switch {
		case m == 1: // as of a convolution of each channel by itself
			for i := range small {
				small[i] = dense.Dot(patches[i*t:(i+1)*t], plane)
			}
		case m > t:
			Gemm(false, true, dense.Of(plane, m, t), dense.Of(patches, k, t), beta, dense.Of(dst, m, k))
			continue
		default:
			Gemm(false, true, dense.Of(patches, k, t), dense.Of(plane, m, t), 0, dense.Of(small, k, m))
		}
		// Write beta·dst + xᵀ for beta 0 or 1 and x rows×cols.
		if beta == 0 {
			transposeTo(dst, small, k, m)
			continue
		}
		for i := range k {
			for j, v := range small[i*m : (i+1)*m] {
				dst[j*k+i] += v
			}
		}
	}
}

// gradientScratch returns the scratch memory that weightGradient needs for n examples.
func (w *Window) gradientScratch(n int) int {
	k, m := w.Cin/w.NumGroups*w.Taps, w.Cout/w.NumGroups
	size := n * w.Out * k // patches
	if n > 1 {
		size += n * w.Out * m // gradients of several examples
	}
	if w.shifts != nil {
		return max(size, w.shifts.MulTransScratch(m))
	}
	if m == 1 || m <= n*w.Out {
		size += k * m // the product
	}
	return size
}

// AddBiasGradient implements linearize.Positions.
func (w *Window) AddBiasGradient(dst, g []float64) {
	size := w.Out
	if w.Transposed {
		size = w.In
	}
	for ch := range dst {
		dst[ch] += vector.Sum(g[ch*size : (ch+1)*size])
	}
}

// transposeTo writes the transpose of x, rows×cols, to dst.
func transposeTo(dst, x []float64, rows, cols int) {
	for i := range rows {
		for j, v := range x[i*cols : (i+1)*cols] {
			dst[j*rows+i] = v
		}
	}
}
