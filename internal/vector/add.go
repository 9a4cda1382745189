package vector

// AddRows adds a rows×cols matrix in src to one in dst. Rows are lds apart in src and ldd apart in dst, and the
// elements of a row in dst are step apart:
//
//	dst[r·ldd + c·step] += src[r·lds + c],  r < rows, c < cols.
//
// It is the transpose of CopyRows and has the same checks.
func AddRows(dst []float64, ldd, step int, src []float64, lds, rows, cols int) {
	if rows <= 0 || cols <= 0 {
		return
	}
	if ldd <= 0 || lds <= 0 || step <= 0 {
		panic("vector: a stride is not positive")
	}
	dst, src = dst[:(rows-1)*ldd+(cols-1)*step+1], src[:(rows-1)*lds+cols]
	if fast && step == 1 {
		addRows(&dst[0], ldd, &src[0], lds, rows, cols)
		return
	}
	for r := range rows {
		i := r * ldd
		for _, v := range src[r*lds : r*lds+cols] {
			dst[i] += v
			i += step
		}
	}
}

// Sum returns the sum of x, computed as four interleaved sums.
func Sum(x []float64) float64 {
	var a, b, c, d float64
	for ; len(x) >= 4; x = x[4:] {
		a += x[0]
		b += x[1]
		c += x[2]
		d += x[3]
	}
	for _, v := range x {
		a += v
	}
	return (a + b) + (c + d)
}

// Axpy adds alpha·x[i] to dst[i] for every i, rounding the product before the sum. dst must be at least as long as
// x, and must be x or not overlap it.
func Axpy(dst []float64, alpha float64, x []float64) {
	dst = dst[:len(x)]
	if fast && len(x) > 0 {
		axpy(&dst[0], alpha, &x[0], len(x))
		return
	}
	for i, v := range x {
		dst[i] += float64(alpha * v)
	}
}

// Dot returns Σ x[i]·y[i]. y must be at least as long as x. The order of the sum depends only on the length.
func Dot(x, y []float64) float64 {
	y = y[:len(x)]
	sum := 0.0
	if whole := len(x) &^ 15; fast && whole > 0 {
		sum = dot(&x[0], &y[0], whole)
		x, y = x[whole:], y[whole:]
	}
	var rest float64
	for i, v := range x {
		rest += v * y[i]
	}
	return sum + rest
}
