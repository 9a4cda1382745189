// Package memory plans memory before it is taken: sizes that saturate instead
// of overflowing, what the machine has free, and the largest problem that
// fits.
package memory

import (
	"math"
	"math/bits"
	"runtime/debug"
	"sort"
)

// Mul returns a·b for sizes that are not negative, or the largest int64.
func Mul(a, b int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi != 0 || lo > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(lo)
}

// MulInt is Mul for sizes that are int.
func MulInt(a, b int) int { return int(min(Mul(int64(a), int64(b)), math.MaxInt)) }

// Add returns a+b for sizes that are not negative, or the largest int64.
func Add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Largest returns the largest number below n whose need, which grows, fits the
// budget.
func Largest(n int, budget int64, need func(int) int64) int {
	return sort.Search(n, func(i int) bool { return need(i+1) > budget })
}

// Budget returns limit where it is positive, and otherwise 80 % of the memory
// that the machine has free: MemAvailable of /proc/meminfo on Linux, within
// what the control group allows, and 4 GiB where neither is known.
func Budget(limit int64) int64 {
	if limit > 0 {
		return limit
	}
	return freeMemory() / 10 * 8
}

// Fit returns the largest number up to n whose need, which grows, is within Budget(limit), and this budget.
// Where that is less than n, it gives the memory of garbage back first, which otherwise counts as taken.
func Fit(n int, limit int64, need func(int) int64) (fits int, budget int64) {
	budget = Budget(limit)
	if limit <= 0 && need(n) > budget {
		debug.FreeOSMemory()
		budget = Budget(limit)
	}
	return Largest(n, budget, need), budget
}

// assumedFree stands for the free memory of a machine that does not tell.
const assumedFree = 4 << 30
