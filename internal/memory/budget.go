package memory

import (
	"runtime/debug"
	"sort"
)

// Largest returns the largest number up to n whose need is within the budget. need must grow with its argument.
func Largest(n int, budget int64, need func(int) int64) int {
	return sort.Search(n, func(i int) bool { return need(i+1) > budget })
}

// Budget returns limit if it is positive. Otherwise it returns 80 % of the free memory in bytes: on Linux
// MemAvailable of /proc/meminfo, but at most what the control group allows, and 80 % of 4 GiB where neither is
// known.
func Budget(limit int64) int64 {
	if limit > 0 {
		return limit
	}
	return freeMemory() / 10 * 8
}

// Fit returns the largest number up to n whose need is within Budget(limit), and this budget. need must grow with
// its argument. If the budget is too small for n, Fit first returns the memory of garbage to the system, because
// that counts as in use.
func Fit(n int, limit int64, need func(int) int64) (fits int, budget int64) {
	budget = Budget(limit)
	if limit <= 0 && need(n) > budget {
		debug.FreeOSMemory()
		budget = Budget(limit)
	}
	return Largest(n, budget, need), budget
}

// assumedFree is the free memory assumed for a machine that does not tell.
const assumedFree = 4 << 30
