// Package memory plans memory before it is taken. It has sizes that saturate instead of overflowing, the free
// memory of the machine, and the largest problem that fits into it.
package memory

import (
	"math"
	"math/bits"
)

// Mul returns a·b for a, b ≥ 0, or the largest int64 where the product is larger.
func Mul(a, b int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi != 0 || lo > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(lo)
}

// MulInt is Mul for ints.
func MulInt(a, b int) int { return int(min(Mul(int64(a), int64(b)), math.MaxInt)) }

// Add returns a+b for a, b ≥ 0, or the largest int64 where the sum is larger.
func Add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
