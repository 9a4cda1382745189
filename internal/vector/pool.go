package vector

// MaxPairs writes the largest element of each 2×2 square of the rows a and b to dst. a and b have twice as many
// elements as dst:
//
//	dst[i] = max(a[2i], a[2i+1], b[2i], b[2i+1]),
//
// The result is NaN where one of them is NaN.
func MaxPairs(dst, a, b []float64) {
	a, b = a[:2*len(dst)], b[:2*len(dst)]
	done := 0
	if whole := len(dst) &^ 3; fast && whole > 0 {
		maxPairs(&dst[0], &a[0], &b[0], whole)
		done = whole
	}
	for i := done; i < len(dst); i++ {
		dst[i] = max(max(a[2*i], a[2*i+1]), max(b[2*i], b[2*i+1]))
	}
}

// SpreadPairs writes g[i] to the position, in the rows da and db, of the first of a[2i], a[2i+1], b[2i] and b[2i+1]
// that equals top[i], and 0 to the other positions of the square. Where none equals top[i], because they are NaN,
// all four are 0.
func SpreadPairs(da, db, g, top, a, b []float64) {
	n := len(g)
	da, db, a, b, top = da[:2*n], db[:2*n], a[:2*n], b[:2*n], top[:n]
	done := 0
	if whole := n &^ 3; fast && whole > 0 {
		spreadPairs(&da[0], &db[0], &g[0], &top[0], &a[0], &b[0], whole)
		done = whole
	}
	for i := done; i < n; i++ {
		k, v := 2*i, top[i]
		da[k], da[k+1], db[k], db[k+1] = 0, 0, 0, 0
		switch {
		case a[k] == v:
			da[k] = g[i]
		case a[k+1] == v:
			da[k+1] = g[i]
		case b[k] == v:
			db[k] = g[i]
		case b[k+1] == v:
			db[k+1] = g[i]
		}
	}
}
