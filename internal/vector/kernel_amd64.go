//go:build gc && !noasm

package vector

import "golang.org/x/sys/cpu"

var (
	fast   = cpu.X86.HasAVX2 && cpu.X86.HasFMA
	widest = fast && cpu.X86.HasAVX512F
)

// tanh is Tanh for n elements, a multiple of width.
func tanh(dst, x *float64, n int) {
	if widest {
		tanhAVX512(dst, x, n)
		return
	}
	tanhAVX2(dst, x, n)
}

// copyRows is CopyRows for a step of 1 or 2.
func copyRows(dst *float64, ldd int, src *float64, lds, step, rows, cols int) {
	switch {
	case widest && step == 1:
		copyRowsAVX512(dst, ldd, src, lds, rows, cols)
	case widest:
		copyRows2AVX512(dst, ldd, src, lds, rows, cols)
	case step == 1:
		copyRowsAVX2(dst, ldd, src, lds, rows, cols)
	default:
		copyRows2AVX2(dst, ldd, src, lds, rows, cols)
	}
}

// expAffine is ExpAffine.
func expAffine(l, e, inverse, a, z *float64, rows, extra, rank, ld, ldz, n int) {
	if widest {
		expAffineAVX512(l, e, inverse, a, z, rows, extra, rank, ld, ldz, n)
		return
	}
	expAffineAVX2(l, e, inverse, a, z, rows, extra, rank, ld, ldz, n)
}

//go:noescape
func expAffineAVX512(l, e, inverse, a, z *float64, rows, extra, rank, ld, ldz, n int)

//go:noescape
func expAffineAVX2(l, e, inverse, a, z *float64, rows, extra, rank, ld, ldz, n int)

//go:noescape
func deviations(x, y *float64, n int, base float64) (sum, square float64)

// addLargest is AddLargest.
func addLargest(sums, squares, cdf, first, second *float64, at *int, c, ld, n int) {
	if widest {
		addLargestAVX512(sums, squares, cdf, first, second, at, c, ld, n)
		return
	}
	addLargestAVX2(sums, squares, cdf, first, second, at, c, ld, n)
}

// largestPlaces is LargestPlaces for n a multiple of LargestLanes.
func largestPlaces(at *int, l *float64, scale, last float64, columns, c, ld, n int) {
	if widest {
		largestPlacesAVX512(at, l, scale, last, columns, c, ld, n)
		return
	}
	largestPlacesAVX2(at, l, scale, last, columns, c, ld, n)
}

//go:noescape
func largestPlacesAVX512(at *int, l *float64, scale, last float64, columns, c, ld, n int)

//go:noescape
func largestPlacesAVX2(at *int, l *float64, scale, last float64, columns, c, ld, n int)

//go:noescape
func addLargestAVX512(sums, squares, cdf, first, second *float64, at *int, c, ld, n int)

//go:noescape
func addLargestAVX2(sums, squares, cdf, first, second *float64, at *int, c, ld, n int)

//go:noescape
func tanhAVX512(dst, x *float64, n int)

//go:noescape
func tanhAVX2(dst, x *float64, n int)

//go:noescape
func copyRowsAVX512(dst *float64, ldd int, src *float64, lds, rows, cols int)

//go:noescape
func copyRows2AVX512(dst *float64, ldd int, src *float64, lds, rows, cols int)

//go:noescape
func copyRowsAVX2(dst *float64, ldd int, src *float64, lds, rows, cols int)

//go:noescape
func copyRows2AVX2(dst *float64, ldd int, src *float64, lds, rows, cols int)

//go:noescape
func relu(dst, x *float64, n int)

//go:noescape
func wherePositive(dst, grad, y *float64, n int)

//go:noescape
func maxPairs(dst, a, b *float64, n int)

//go:noescape
func spreadPairs(da, db, grad, top, a, b *float64, n int)

//go:noescape
func addRows(dst *float64, ldd int, src *float64, lds, rows, cols int)

//go:noescape
func axpy(dst *float64, alpha float64, x *float64, n int)

//go:noescape
func dot(x, y *float64, n int) float64
