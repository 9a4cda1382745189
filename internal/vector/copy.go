package vector

// CopyRows copies a rows×cols matrix from src to dst. Rows are lds apart in src and ldd apart in dst, and the
// elements of a row in src are step apart:
//
//	dst[r·ldd + c] = src[r·lds + c·step],  r < rows, c < cols.
//
// It panics for strides that are not positive and for slices that are too short. dst and src must not overlap.
func CopyRows(dst []float64, ldd int, src []float64, lds, step, rows, cols int) {
	if rows <= 0 || cols <= 0 {
		return
	}
	if ldd <= 0 || lds <= 0 || step <= 0 {
		panic("vector: a stride is not positive")
	}
	dst, src = dst[:(rows-1)*ldd+cols], src[:(rows-1)*lds+(cols-1)*step+1]
	if fast && step <= 2 {
		copyRows(&dst[0], ldd, &src[0], lds, step, rows, cols)
		return
	}
	for r := range rows {
		to, i := dst[r*ldd:r*ldd+cols], r*lds
		for c := range to {
			to[c] = src[i]
			i += step
		}
	}
}
