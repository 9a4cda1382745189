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

// Without returns the rows 0 to n−1 but row i, whose place the last one takes: networks that
// are trained with the same seed without one row or another then see all others in the
// same minibatches, and differ by little else than these rows. i outside 0 to n−1 panics.
func Without(n, i int) []int {
	if i < 0 || i >= n {
		panic("evaluate: a row that is left out of rows without it")
	}
	list := make([]int, n-1)
	for k := range list {
		list[k] = k
	}
	if i < n-1 {
		list[i] = n - 1
	}
	return list
}
