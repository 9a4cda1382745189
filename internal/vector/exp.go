package vector

import "math"

const (
	expLeast = -708 // below it exp(x) is close to the smallest normal number
	expMost  = 709
)

// Exp writes exp(x[i]) to dst[i] for every i, and 0 where x[i] < −708. An x[i] above 709 counts as 709. dst must be
// as long as x, and must be x or not overlap it. With AVX2 and FMA or NEON the result is within one unit in the
// last place; otherwise it equals math.Exp.
func Exp(dst, x []float64) {
	dst = dst[:len(x)]
	if !fast {
		for i, v := range x {
			if dst[i] = math.Exp(min(v, expMost)); v < expLeast {
				dst[i] = 0
			}
		}
		return
	}
	whole := len(x) / width * width
	if whole > 0 {
		exp(&dst[0], &x[0], whole)
	}
	if whole < len(x) {
		// Use the same kernel for the rest, so that an element's bits do not depend on its position.
		var rest [width]float64
		copy(rest[:], x[whole:])
		exp(&rest[0], &rest[0], width)
		copy(dst[whole:], rest[:])
	}
}
