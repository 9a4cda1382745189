package explain

import (
	"cmp"
	"slices"
)

// A candidate is a training example that may be listed.
type candidate struct {
	index int
	score float64   // by which candidates are ordered
	value float64   // C(x*,x_i) b_i
	raw   float64   // κ(x*,x_i) α_i
	cross []float64 // wᵀ C(x*,x_i), length C
}

// outranks tells whether c is listed before d. The larger score comes first, and
// among equal scores the earlier example.
func (c *candidate) outranks(d *candidate) bool {
	return c.score > d.score || c.score == d.score && c.index < d.index
}

// top keeps the k candidates of largest score in a heap; the root is the candidate that ranks last.
type top struct {
	k    int
	heap []candidate
}

// offer keeps a copy of c if it is among the k best so far. A score of NaN is
// never kept.
func (t *top) offer(c candidate) {
	switch {
	case t.k == 0 || c.score != c.score:
	case len(t.heap) < t.k:
		c.cross = slices.Clone(c.cross)
		t.heap = append(t.heap, c)
		for i := len(t.heap) - 1; i > 0; { // up
			parent := (i - 1) / 2
			if !t.heap[parent].outranks(&t.heap[i]) {
				break
			}
			t.heap[parent], t.heap[i] = t.heap[i], t.heap[parent]
			i = parent
		}
	case c.outranks(&t.heap[0]):
		c.cross = append(t.heap[0].cross[:0], c.cross...)
		t.heap[0] = c
		for i := 0; ; { // down
			least := i
			for _, child := range []int{2*i + 1, 2*i + 2} {
				if child < len(t.heap) && t.heap[least].outranks(&t.heap[child]) {
					least = child
				}
			}
			if least == i {
				break
			}
			t.heap[least], t.heap[i] = t.heap[i], t.heap[least]
			i = least
		}
	}
}

// sorted returns the candidates that were kept, the largest first.
func (t *top) sorted() []candidate {
	slices.SortFunc(t.heap, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.index, b.index))
	})
	return t.heap
}
