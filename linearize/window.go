package linearize

import (
	"github.com/funcgp/funcgp/internal/dense"
)

// window is the geometry of a convolution or a pool: which input position each
// kernel tap reads at each output position.
type window struct {
	group           int     // groups
	cin, cout       int     // channels in all, of the convolution's input and output
	taps, in, out   int     // kernel positions, spatial positions of input and output
	source          []int32 // out×taps: input position, or −1 in the padding
	transposedUsage bool    // the layer runs the convolution backwards (ConvTranspose)

	runs   []run  // of all taps, in order
	ofTap  []int  // runs[ofTap[k]:ofTap[k+1]] belong to tap k
	padded []bool // taps that read the padding somewhere

	reachesPadding bool // some tap does
}

// A run is a stretch of output positions at which a tap reads neighbouring
// input positions.
type run struct{ out, in, n int32 }

// findRuns prepares the copies of patchRows.
func (w *window) findRuns() {
	w.ofTap, w.padded = make([]int, w.taps+1), make([]bool, w.taps)
	for k := range w.taps {
		for t := range w.out {
			s := w.source[t*w.taps+k]
			if s < 0 {
				w.padded[k], w.reachesPadding = true, true
				continue
			}
			if last := len(w.runs) - 1; last >= w.ofTap[k] {
				if r := &w.runs[last]; r.out+r.n == int32(t) && r.in+r.n == s {
					r.n++
					continue
				}
			}
			w.runs = append(w.runs, run{int32(t), s, 1})
		}
		w.ofTap[k+1] = len(w.runs)
	}
}

var _ positions = (*window)(nil)

func (w *window) groups() int { return w.group }

func (w *window) factors() (t, k, m int) {
	if w.transposedUsage {
		// The weight is stored channels-of-x × (channels-of-y/g · taps).
		return w.out, w.cout / w.group, w.cin / w.group * w.taps
	}
	return w.out, w.cin / w.group * w.taps, w.cout / w.group
}

func (w *window) patches(dst, x []float64, group int) {
	if w.transposedUsage {
		transposeTo(dst, w.plane(x, group), w.cout/w.group, w.out)
		return
	}
	w.transposedRows(dst, x, group)
}

func (w *window) gradients(dst, g []float64, group int) {
	if w.transposedUsage {
		w.transposedRows(dst, g, group)
		return
	}
	transposeTo(dst, w.plane(g, group), w.cout/w.group, w.out)
}

// plane is a group's part of the convolution's output, channels × out.
func (w *window) plane(g []float64, group int) []float64 {
	size := w.cout / w.group * w.out
	return g[group*size : (group+1)*size]
}

func (w *window) transposedRows(dst, x []float64, group int) {
	rows := make([]float64, w.scratch())
	w.patchRows(rows, x, group)
	transposeTo(dst, rows, w.cin/w.group*w.taps, w.out)
}

// scratch is the memory for a group's patches and its weight gradient.
func (w *window) scratch() int {
	return w.cin / w.group * w.taps * (w.out + w.cout/w.group)
}

// patchRows gathers the patches of a group as (cin/g·taps) × out.
func (w *window) patchRows(dst, x []float64, group int) {
	channels := w.cin / w.group
	for ch := range channels {
		plane := x[(group*channels+ch)*w.in:][:w.in]
		for k := range w.taps {
			row := dst[:w.out]
			dst = dst[w.out:]
			if w.padded[k] {
				clear(row)
			}
			for _, r := range w.runs[w.ofTap[k]:w.ofTap[k+1]] {
				if r.n == 1 {
					row[r.out] = plane[r.in]
					continue
				}
				copy(row[r.out:r.out+r.n], plane[r.in:r.in+r.n])
			}
		}
	}
}

// addPatchRows adds patches, (cin/g·taps) × out, back to the positions they
// were gathered from: the adjoint of patchRows.
func (w *window) addPatchRows(x, src []float64, group int) {
	channels := w.cin / w.group
	for ch := range channels {
		plane := x[(group*channels+ch)*w.in:][:w.in]
		for k := range w.taps {
			row := src[:w.out]
			src = src[w.out:]
			for _, r := range w.runs[w.ofTap[k]:w.ofTap[k+1]] {
				to, from := plane[r.in:r.in+r.n], row[r.out:r.out+r.n]
				for i, v := range from {
					to[i] += v
				}
			}
		}
	}
}

// weightGradient forms Pᵀ-side products (cin/g·taps × out times out × cout/g),
// in which the patches, the larger factor, are read in place, and transposes
// the small result.
func (w *window) weightGradient(dst, x, g, scratch []float64, _ bool, beta float64) {
	if w.transposedUsage {
		x, g = g, x // the convolution's input is the layer's result
	}
	k, m := w.cin/w.group*w.taps, w.cout/w.group
	patches, small := scratch[:k*w.out], scratch[k*w.out:][:k*m]
	for group := range w.group {
		w.patchRows(patches, x, group)
		gemm(false, true, dense.Of(patches, k, w.out), dense.Of(w.plane(g, group), m, w.out), 0, dense.Of(small, k, m))
		addTransposed(dst[group*m*k:(group+1)*m*k], small, k, m, beta)
	}
}

// addTransposed writes beta·dst + xᵀ for beta 0 or 1 and x rows×cols.
func addTransposed(dst, x []float64, rows, cols int, beta float64) {
	if beta == 0 {
		transposeTo(dst, x, rows, cols)
		return
	}
	for i := range rows {
		for j, v := range x[i*cols : (i+1)*cols] {
			dst[j*rows+i] += v
		}
	}
}

// channelSums adds Σ_t g_t of each output channel of the layer.
func (w *window) channelSums(dst, g []float64) {
	size := w.out
	if w.transposedUsage {
		size = w.in
	}
	for ch := range dst {
		sum := 0.0
		for _, v := range g[ch*size : (ch+1)*size] {
			sum += v
		}
		dst[ch] += sum
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
