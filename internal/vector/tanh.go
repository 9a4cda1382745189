package vector

import "math"

// width is the number of elements that a kernel computes at a time.
const width = 8

// Tanh writes tanh(x[i]) to dst[i] for every i. dst must be as long as x, and must be x or not overlap it. With
// AVX2 and FMA or NEON the result is within two units in the last place; otherwise it equals math.Tanh.
func Tanh(dst, x []float64) {
	dst = dst[:len(x)]
	if !fast {
		for i, v := range x {
			dst[i] = math.Tanh(v)
		}
		return
	}
	whole := len(x) / width * width
	if whole > 0 {
		tanh(&dst[0], &x[0], whole)
	}
	if whole < len(x) {
		// Use the same kernel for the rest, so that an element's bits do not depend on its position.
		var rest [width]float64
		copy(rest[:], x[whole:])
		tanh(&rest[0], &rest[0], width)
		copy(dst[whole:], rest[:])
	}
}
