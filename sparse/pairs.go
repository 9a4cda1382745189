package sparse

import (
	"context"
	"errors"
	"fmt"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// Pairs makes of a Selector one of (example, output) pairs: m rows of K_ZZ
// rather than m·C, spent where they explain the most. Its Choose returns the
// places i·C + a of pairs (i, a), those of their rows in K, and Select gathers
// them as inducing pairs. Counts are of pairs in a *CountError and in a
// *MemoryError.
//
// The Selector sees a source of N·C examples with one output each. Greedy and
// RandomCholesky then take single rows of K as pivots, Trace chooses the pairs
// with the largest Λ_aa, and the labels of Stratified are those of pairs.
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

// choose is Choose for examples known to have c outputs.
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
	places, err := p.choose(ctx, k, x, c, m, o)
	if err != nil {
		return nil, err
	}
	return gatherPlaces(ctx, x, places, c)
}

// A pairSource shows the pairs (i, a) of a source as its examples i·c + a, of
// one output each.
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
	z, err := gatherPlaces(ctx, s.of, rows, s.c)
	if err != nil {
		return nil, err
	}
	return z.Batch, nil
}

// GatherPairs returns the outputs of the examples of x in rows, one for each
// row, as inducing pairs. There must be one at least. A row that x does not
// have panics; an output that it does not have is an error.
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

// gatherPairs is GatherPairs for examples known to have c outputs.
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

// gatherPlaces gathers the pairs at places i·c + a.
func gatherPlaces(ctx context.Context, x linearize.Source, places []int, c int) (*Inducing, error) {
	rows, outputs := make([]int, len(places)), make([]int, len(places))
	for i, p := range places {
		rows[i], outputs[i] = p/c, p%c
	}
	return gatherPairs(ctx, x, rows, outputs, c)
}

// outputsOf returns the number of outputs of the examples of x, 0 where there
// are none: those of the first, which is linearized where x is a Gatherer, and
// of the first batch elsewhere.
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
