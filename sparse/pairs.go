package sparse

import (
	"context"
	"errors"
	"fmt"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// A PairSelector chooses m distinct (example, output) pairs of the training
// examples, which have c outputs each, in order of choice: the first of them
// are what it would choose for a smaller m. Pair (i, a) has the place i·c + a,
// that of its row in K. k may be nil where a selector says that it does not
// use it. Uniform, Trace, Greedy and RandomCholesky choose pairs; Stratified
// and KMeans choose examples alone.
type PairSelector interface {
	ChoosePairs(ctx context.Context, k ntk.Kernel, x linearize.Source, c, m int, o *Options) ([]int, error)
}

// SelectPairs chooses m inducing (example, output) pairs of x and gathers
// them: m rows of K_ZZ rather than the m·C of Select, spent where they explain
// the most. More than the N·C that x has, or none, is a *CountError.
func SelectPairs(ctx context.Context, how PairSelector, k ntk.Kernel, x linearize.Source, m int, o *Options) (*Inducing, error) {
	c, err := outputsOf(ctx, x)
	if err != nil {
		return nil, err
	}
	if n := memory.MulInt(x.Len(), c); m < 1 || m > n {
		return nil, &CountError{M: m, N: n, Pairs: true}
	}
	places, err := how.ChoosePairs(ctx, k, x, c, m, o)
	if err != nil {
		return nil, err
	}
	return gatherPlaces(ctx, x, places, c)
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
