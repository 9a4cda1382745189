package vector

// Relu writes max(x[i], 0) to dst[i] for every i, and NaN for NaN. dst must be as long as x, and must be x or not
// overlap it.
func Relu(dst, x []float64) {
	dst = dst[:len(x)]
	done := 0
	if whole := len(x) &^ 3; fast && whole > 0 {
		relu(&dst[0], &x[0], whole)
		done = whole
	}
	for i := done; i < len(x); i++ {
		// The builtin max keeps a NaN.
		dst[i] = max(x[i], 0)
	}
}

// WherePositive writes g[i] to dst[i] where y[i] is positive or NaN, and 0 elsewhere. All have the same length. dst
// must be g or overlap neither.
func WherePositive(dst, g, y []float64) {
	dst, g = dst[:len(y)], g[:len(y)]
	done := 0
	if whole := len(y) &^ 3; fast && whole > 0 {
		wherePositive(&dst[0], &g[0], &y[0], whole)
		done = whole
	}
	for i := done; i < len(y); i++ {
		if y[i] <= 0 {
			dst[i] = 0
		} else {
			dst[i] = g[i]
		}
	}
}
