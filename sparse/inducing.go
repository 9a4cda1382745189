package sparse

import (
	"context"
	"errors"
	"fmt"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// Inducing holds the M inducing elements Z. They are either examples with all
// their C outputs, and K_ZZ has M·C rows, or (example, output) pairs, and K_ZZ
// has M rows. Pairs come from GatherPairs, and from Select with Pairs. In place of
// an output, a pair may have a direction u, and be uᵀf of its example: SelectKept
// chooses such pairs. The zero Inducing has no elements; a function that needs some
// returns a *CountError.
type Inducing struct {
	// Rows are the indices of the examples in the training data, in the order of
	// Batch, or nil where the examples are no training data. Pairs may repeat an
	// index.
	Rows []int
	// Batch holds the examples with all their outputs, or the pairs as examples
	// of one output.
	Batch *linearize.Batch
	// Outputs are the outputs of the pairs; nil for examples and directions.
	Outputs []int
	// Directions are the directions of the pairs, M×C; nil for examples and outputs.
	Directions *mat.Dense
	// DataOutputs is C for pairs. For examples, whose Batch tells C, it is 0 or C.
	DataOutputs int
}

// Len returns M.
func (z *Inducing) Len() int {
	if z == nil || z.Batch == nil || z.Batch.F == nil {
		return 0
	}
	return z.Batch.Len()
}

// Pairs tells whether the elements are (example, output) or (example, direction)
// pairs.
func (z *Inducing) Pairs() bool { return z.Outputs != nil || z.Directions != nil }

// outputs returns C.
func (z *Inducing) outputs() int {
	if z.Pairs() {
		return z.DataOutputs
	}
	return z.Batch.Outputs()
}

// per returns the number of rows that an element has in K_ZZ: C, or 1 for pairs.
func (z *Inducing) per() int {
	if z.Pairs() {
		return 1
	}
	return z.Batch.Outputs()
}

// first returns the first m elements.
func (z *Inducing) first(m int) *Inducing {
	s := &Inducing{Batch: z.Batch.Slice(0, m), DataOutputs: z.DataOutputs}
	if z.Rows != nil {
		s.Rows = z.Rows[:m]
	}
	if z.Outputs != nil {
		s.Outputs = z.Outputs[:m]
	}
	s.Directions = dense.Slice(z.Directions, 0, m)
	return s
}

// named sets the output in a *gp.NotFiniteError about a pair.
func (z *Inducing) named(err error) error {
	if e, ok := err.(*gp.NotFiniteError); ok && z.Outputs != nil {
		e.Output = z.Outputs[e.Row]
	}
	return err
}

// check panics where the rows or the outputs do not match the elements.
func (z *Inducing) check() {
	if z.Rows != nil && len(z.Rows) != z.Batch.Len() {
		panic("sparse: rows and inducing examples differ in number")
	}
	if !z.Pairs() {
		if z.DataOutputs != 0 && z.DataOutputs != z.Batch.Outputs() {
			panic("sparse: inducing examples with another number of outputs than the data")
		}
		return
	}
	if z.Batch.Outputs() != 1 {
		panic("sparse: inducing pairs need examples of one output")
	}
	if z.Directions != nil {
		if z.Outputs != nil || !dense.Is(z.Directions, z.Batch.Len(), z.DataOutputs) {
			panic("sparse: inducing pairs with directions need one of the length of the outputs each")
		}
		return
	}
	if len(z.Outputs) != z.Batch.Len() {
		panic("sparse: inducing pairs need an output each")
	}
	for _, a := range z.Outputs {
		if a < 0 || a >= z.DataOutputs {
			panic("sparse: an inducing pair's output is not one of the data's")
		}
	}
}

// Pairs returns a Selector that chooses (example, output) pairs as of chooses
// examples. K_ZZ then has m rows rather than m·C. Choose returns the index
// i·C + a of each pair (i, a), which is that of its row in K, and Select gathers
// the pairs. A *CountError and a *gp.MemoryError count pairs.
//
// The Selector of is given a source of N·C examples with one output each. Greedy
// and RandomCholesky then take single rows of K as pivots, Trace chooses the
// pairs with the largest Λ_aa, and Stratified needs a label for each pair.
func Pairs(of Selector) Selector { return pairs{of} }

type pairs struct{ of Selector }

// Choose implements Selector.
func (p pairs) Choose(ctx context.Context, k ntk.Kernel, x linearize.Source, m int, o *Options) ([]int, error) {
	c, err := outputsOf(ctx, x)
	if err != nil {
		return nil, err
	}
	return p.choose(ctx, k, x, c, m, o)
}

// choose is Choose for examples that have c outputs.
func (p pairs) choose(ctx context.Context, k ntk.Kernel, x linearize.Source, c, m int, o *Options) ([]int, error) {
	all := pairSource{x, c}
	if n := all.Len(); m < 1 || m > n {
		return nil, &CountError{M: m, N: n, Pairs: true}
	}
	return p.of.Choose(ctx, k, all, m, o)
}

// selectPairs is Select for pairs.
func (p pairs) selectPairs(ctx context.Context, k ntk.Kernel, x linearize.Source, m int, o *Options) (*Inducing, error) {
	c, err := outputsOf(ctx, x)
	if err != nil {
		return nil, err
	}
	indices, err := p.choose(ctx, k, x, c, m, o)
	if err != nil {
		return nil, err
	}
	return gatherPairsAt(ctx, x, indices, c)
}

// A pairSource is a Source whose example i·c + a, of one output, is output a of
// example i of another Source.
type pairSource struct {
	of linearize.Source
	c  int
}

var (
	_ linearize.Source   = pairSource{}
	_ linearize.Gatherer = pairSource{}
)

// Len implements linearize.Source.
func (s pairSource) Len() int { return memory.MulInt(s.of.Len(), s.c) }

// Batches implements linearize.Source.
func (s pairSource) Batches(ctx context.Context, yield func(first int, b *linearize.Batch) error) error {
	step := max(1, poolRows/s.c)
	return s.of.Batches(ctx, func(first int, b *linearize.Batch) error {
		for lo := 0; lo < b.Len(); lo += step {
			n := min(step, b.Len()-lo)
			part, err := pairSource{b.Slice(lo, lo+n), s.c}.Gather(ctx, dense.Range(n*s.c))
			if err != nil {
				return err
			}
			if err := yield((first+lo)*s.c, part); err != nil {
				return err
			}
		}
		return nil
	})
}

// Gather implements linearize.Gatherer.
func (s pairSource) Gather(ctx context.Context, rows []int) (*linearize.Batch, error) {
	z, err := gatherPairsAt(ctx, s.of, rows, s.c)
	if err != nil {
		return nil, err
	}
	return z.Batch, nil
}

// GatherPairs returns the inducing pairs (rows[i], outputs[i]) of examples and
// outputs of x. No pairs, and a row that x does not have, panic; an output that
// the examples do not have is an error.
func GatherPairs(ctx context.Context, x linearize.Source, rows, outputs []int) (*Inducing, error) {
	if len(rows) != len(outputs) || len(rows) == 0 {
		panic("sparse: pairs need a row and an output each, and there must be one")
	}
	c, err := outputsOf(ctx, x)
	if err != nil {
		return nil, err
	}
	for i, a := range outputs {
		if a < 0 || a >= c {
			return nil, fmt.Errorf("sparse: inducing pair %d is output %d of an example; the examples have outputs 0 to %d", i, a, c-1)
		}
	}
	return gatherPairs(ctx, x, rows, outputs, c)
}

// gatherPairs is GatherPairs for examples that have c outputs.
func gatherPairs(ctx context.Context, x linearize.Source, rows, outputs []int, c int) (*Inducing, error) {
	w := mat.NewDense(len(rows), c, nil)
	for i, a := range outputs {
		w.Set(i, a, 1)
	}
	b, err := linearize.GatherCombined(ctx, x, rows, w)
	if err != nil {
		return nil, err
	}
	return &Inducing{Rows: rows, Batch: b, Outputs: outputs, DataOutputs: c}, nil
}

// gatherPairsAt gathers the pairs (i, a) given by their indices i·c + a.
func gatherPairsAt(ctx context.Context, x linearize.Source, indices []int, c int) (*Inducing, error) {
	rows, outputs := make([]int, len(indices)), make([]int, len(indices))
	for i, p := range indices {
		rows[i], outputs[i] = p/c, p%c
	}
	return gatherPairs(ctx, x, rows, outputs, c)
}

// outputsOf returns the number of outputs of the examples of x, or 0 where x has
// no examples. It linearizes the first example where x is a linearize.Gatherer,
// and the first batch elsewhere.
func outputsOf(ctx context.Context, x linearize.Source) (int, error) {
	if x.Len() == 0 {
		return 0, nil
	}
	if _, ok := x.(linearize.Gatherer); ok {
		b, err := linearize.Gather(ctx, x, []int{0})
		if err != nil {
			return 0, err
		}
		return b.Outputs(), nil
	}
	c := 0
	err := x.Batches(ctx, func(_ int, b *linearize.Batch) error {
		if c = b.Outputs(); b.Len() == 0 {
			return nil
		}
		return errOutputsKnown
	})
	if errors.Is(err, errOutputsKnown) {
		return c, nil
	}
	return c, err
}

// errOutputsKnown ends a pass over the data early.
var errOutputsKnown = errors.New("sparse: the number of outputs is known")
