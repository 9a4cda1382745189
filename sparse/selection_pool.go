package sparse

import (
	"context"
	"math/rand/v2"
	"sort"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/sites"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// poolRows is the number of rows of kernel among the examples that are
// considered between two passes over the data.
const poolRows = 256

// poolSize returns how many examples with c outputs are considered at once.
func poolSize(c int) int { return max(4, poolRows/c) }

// A weights is a choice in progress: how much each candidate, an example or a
// pair, still counts.
type weights struct {
	w      []float64 // nonnegative
	chosen []bool
	rows   []int
}

func newWeights(n int) *weights { return &weights{w: make([]float64, n), chosen: make([]bool, n)} }

// take adds example i to the choice.
func (w *weights) take(i int) {
	w.rows = append(w.rows, i)
	w.chosen[i] = true
	w.w[i] = 0
}

// rest takes examples in the given order up to m in all.
func (w *weights) rest(m int, order []int) []int {
	for _, i := range order {
		if len(w.rows) == m {
			break
		}
		if !w.chosen[i] {
			w.take(i)
		}
	}
	return w.rows
}

// draw returns n examples, each drawn with probability proportional to its
// weight, or nil where all weights are zero. Examples may repeat.
func (w *weights) draw(n int, rng *rand.Rand) []int {
	sums, total := make([]float64, len(w.w)), 0.0
	for i, v := range w.w {
		total += v
		sums[i] = total
	}
	if !(total > 0) {
		return nil
	}
	rows := make([]int, n)
	for k := range rows {
		u := rng.Float64() * total
		rows[k] = min(sort.Search(len(sums), func(i int) bool { return sums[i] > u }), len(sums)-1)
		for w.w[rows[k]] == 0 { // past the last one by rounding
			rows[k]--
		}
	}
	return rows
}

// largest returns the n examples with the largest weights, fewer where the
// others' are zero, ties in order, and the largest weight of the others.
func (w *weights) largest(n int) (rows []int, next float64) {
	rows = dense.Range(len(w.w))
	sort.SliceStable(rows, func(a, b int) bool { return w.w[rows[a]] > w.w[rows[b]] })
	n = min(n, len(rows))
	for n > 0 && w.w[rows[n-1]] == 0 {
		n--
	}
	if n < len(rows) {
		next = w.w[rows[n]]
	}
	return rows[:n], next
}

// eachColumns passes over x, examples of c outputs, with κ(x, s), chunk by
// chunk.
func eachColumns(ctx context.Context, k ntk.Kernel, x linearize.Source, c int, s *linearize.Batch, do func(p part, block blas64.General) error) error {
	width := s.Len() * s.Outputs()
	buf := make([]float64, min(x.Len(), linearize.Tile(c))*c*width)
	return linearize.Rebatch(x, linearize.Tile(c)).Batches(ctx, func(first int, b *linearize.Batch) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		p := part{first: first, x: b, rows: b.Len() * c}
		block := dense.In(buf, p.rows, width)
		k.BlockTo(dense.View(block), b, s)
		if err := sites.NotFiniteRows("kernel", dense.View(block), first, c); err != nil {
			return err
		}
		return do(p, block)
	})
}

// traces returns tr κ(x_i, x_i) of every example, and the number of outputs.
func traces(ctx context.Context, k ntk.Kernel, x linearize.Source) (t []float64, c int, err error) {
	t = make([]float64, x.Len())
	c, err = eachVariance(ctx, k, x, func(row, c int, k float64) { t[row/c] += k })
	return t, c, err
}

// variances returns the diagonal of κ(x, x), and the number of outputs.
func variances(ctx context.Context, k ntk.Kernel, x linearize.Source) (v []float64, c int, err error) {
	c, err = eachVariance(ctx, k, x, func(row, c int, k float64) {
		if v == nil {
			v = make([]float64, x.Len()*c)
		}
		v[row] = k
	})
	return v, c, err
}

// eachVariance calls do with the prior variance of every output: row i·c + a
// is output a of example i.
func eachVariance(ctx context.Context, k ntk.Kernel, x linearize.Source, do func(row, c int, k float64)) (c int, err error) {
	err = x.Batches(ctx, func(first int, b *linearize.Batch) error {
		c = b.Outputs()
		diag := new(mat.Dense)
		k.DiagTo(diag, b)
		if err := sites.NotFiniteRows("kernel", diag, first, c); err != nil {
			return err
		}
		for i := range b.Len() * c {
			do(first*c+i, c, diag.At(i, i%c))
		}
		return nil
	})
	return c, err
}
