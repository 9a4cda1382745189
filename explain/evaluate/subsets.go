package evaluate

import (
	"math/rand/v2"
	"slices"
)

// Subsets draws subsets of size of the rows 0 to n−1 without replacement, each ascending.
// They are the same for the same seed, and the first ones do not depend on count. A size
// outside 1 to n or a negative count panics.
func Subsets(n, size, count int, seed uint64) [][]int {
	if size < 1 || size > n || count < 0 {
		panic("evaluate: subsets of no size or of more rows than there are")
	}
	rng := rand.New(rand.NewPCG(seed, 0x5b5e7))
	list := make([][]int, count)
	for i := range list {
		list[i] = rng.Perm(n)[:size]
		slices.Sort(list[i])
	}
	return list
}

// Without returns the rows 0 to n−1 but these, ascending: those of a Run that leaves some
// out.
func Without(n int, rows ...int) []int {
	list := make([]int, 0, n)
	for i := range n {
		if !slices.Contains(rows, i) {
			list = append(list, i)
		}
	}
	return list
}
