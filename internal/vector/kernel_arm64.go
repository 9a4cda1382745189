//go:build gc && !noasm

package vector

// Every arm64 has NEON.
const fast = true

//go:noescape
func exp(dst, x *float64, n int)

//go:noescape
func tanh(dst, x *float64, n int)

//go:noescape
func expAffine(l, e, inverse, a, z *float64, rows, extra, rank, ld, ldz, n int)

//go:noescape
func deviations(x, y *float64, n int, base float64) (sum, square float64)

//go:noescape
func addLargest(sums, squares, cdf, first, second *float64, at *int, c, ld, n int)

//go:noescape
func largestPlaces(at *int, l *float64, scale, last float64, columns, c, ld, n int)

//go:noescape
func copyRows(dst *float64, ldd int, src *float64, lds, step, rows, cols int)

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
