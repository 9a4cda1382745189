package dense

import (
	"sync"
	"unsafe"

	"github.com/funcgp/funcgp/internal/vector"
)

// part says which elements of a matrix are stored or computed: all of them, or one triangle.
type part int

const (
	whole part = iota
	lower
	upper
)

// operand is a factor of a product, seen as a matrix of rows × k: op(A), or op(B)ᵀ. Element (i, p) is data[i*rs +
// p*cs], where rs or cs is 1. For a symmetric operand, part is the stored triangle, lower or upper. The other
// triangle is not read; its elements are read with i and p exchanged.
type operand struct {
	data   []float64
	rs, cs int
	part   part
}

// pack writes rows i to i+rows−1 and columns p to p+k−1 to dst in panels of the given width, one after the other:
// row r, column q at dst[(r/width*k+q)*width + r%width]. Zeros fill the last panel.
func (o operand) pack(dst []float64, width, i, rows, p, k int) {
	if o.part == whole && o.cs != 1 {
		o.packColumns(dst, width, i, rows, p, k)
		return
	}
	for r := 0; r < rows; r += width {
		d, n := dst[r*k:][:width*k], min(width, rows-r)
		switch o.part {
		case whole:
			o.packRows(d, width, i+r, n, p, k)
		case lower:
			o.packMirrored(d, width, i+r, n, p, k, o.stored(), o.mirrored())
		case upper:
			o.packMirrored(d, width, i+r, n, p, k, o.mirrored(), o.stored())
		}
	}
}

// stored and mirrored return a symmetric operand as a full one: as seen through the stored triangle, and through
// the other.
func (o operand) stored() operand   { return operand{data: o.data, rs: o.rs, cs: o.cs} }
func (o operand) mirrored() operand { return operand{data: o.data, rs: o.cs, cs: o.rs} }

// packMirrored packs one panel of a symmetric operand. before has the elements left of the diagonal, after the
// elements right of it.
func (o operand) packMirrored(dst []float64, width, i, rows, p, k int, before, after operand) {
	lo := min(max(i, p), p+k)
	hi := min(max(i+rows, p), p+k)
	if lo > p {
		before.pack(dst, width, i, rows, p, lo-p)
	}
	for q := lo; q < hi; q++ {
		d := dst[(q-p)*width:][:width]
		clear(d[rows:])
		for r := range rows {
			if i+r > q {
				d[r] = before.at(i+r, q)
			} else {
				d[r] = after.at(i+r, q)
			}
		}
	}
	if hi < p+k {
		after.pack(dst[(hi-p)*width:], width, i, rows, hi, p+k-hi)
	}
}

func (o operand) at(i, p int) float64 { return o.data[i*o.rs+p*o.cs] }

// packColumns packs an operand whose columns are contiguous. It goes column by column through all panels, so that
// memory is read in order.
func (o operand) packColumns(dst []float64, width, i, rows, p, k int) {
	for q := range k {
		src, d := o.data[i+(p+q)*o.cs:][:rows], dst[q*width:]
		if whole := (rows - 1) / width; whole > 0 {
			vector.CopyRows(d, width*k, src, width, 1, whole, width)
			src, d = src[whole*width:], d[whole*width*k:]
		}
		clear(d[len(src):width])
		copy(d, src)
	}
}

// packRows packs one panel of an operand whose rows are contiguous, four rows at a time.
func (o operand) packRows(dst []float64, width, i, rows, p, k int) {
	r := 0
	for ; r+4 <= rows; r += 4 {
		s := o.data[(i+r)*o.rs+p:]
		interleave4(dst, r, width, s[:k], s[o.rs:][:k], s[2*o.rs:][:k], s[3*o.rs:][:k])
	}
	for ; r < rows; r++ {
		for q, v := range o.data[(i+r)*o.rs+p:][:k] {
			dst[q*width+r] = v
		}
	}
	if rows < width {
		for q := range k {
			clear(dst[q*width+rows : (q+1)*width])
		}
	}
}

// interleave4 writes (a[q], b[q], c[q], d[q]) to dst[at+q*step:] for every q. step may be negative.
func interleave4(dst []float64, at, step int, a, b, c, d []float64) {
	b, c, d = b[:len(a)], c[:len(a)], d[:len(a)]
	if whole := len(a) &^ 3; active.interleave(dst, at, step, a[:whole], b[:whole], c[:whole], d[:whole]) {
		a, b, c, d, at = a[whole:], b[whole:], c[whole:], d[whole:], at+whole*step
	}
	for q, v := range a {
		t := dst[at : at+4 : at+4]
		t[0], t[1], t[2], t[3] = v, b[q], c[q], d[q]
		at += step
	}
}

// separate4 is the inverse of interleave4.
func separate4(a, b, c, d, src []float64, at, step int) {
	b, c, d = b[:len(a)], c[:len(a)], d[:len(a)]
	for q := range a {
		t := src[at : at+4 : at+4]
		a[q], b[q], c[q], d[q] = t[0], t[1], t[2], t[3]
		at += step
	}
}

// A buffer is reused memory whose first element s[0] starts a cache line.
type buffer struct{ raw, s []float64 }

var buffers = sync.Pool{New: func() any { return new(buffer) }}

const line = 8 // float64s in a cache line

// getBuffer returns a buffer with n elements of arbitrary values in s.
func getBuffer(n int) *buffer {
	b := buffers.Get().(*buffer)
	if cap(b.raw) < n+line-1 {
		b.raw = make([]float64, n+line-1)
	}
	b.raw = b.raw[:cap(b.raw)]
	off := -int(uintptr(unsafe.Pointer(&b.raw[0]))/8) & (line - 1)
	b.s = b.raw[off : off+n]
	return b
}

func (b *buffer) free() { buffers.Put(b) }
