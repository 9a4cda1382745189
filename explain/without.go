package explain

import (
	"context"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/linearize"
)

// Without predicts what the posterior would predict without one training example,
// for each of n training examples in turn. It is a step from the posterior of all
// examples (E15), which is exact for a Gaussian likelihood. It shares the cache of
// its Explainer and, like it, is safe for concurrent use.
type Without struct {
	e     *Explainer
	rows  []int  // ascending positions in the training data
	need  []bool // which examples they are
	index []int  // index[i] is the position of example i in rows, where need[i]
	mean  *mat.Dense
	tile  int // test rows whose predictions are held at a time
}

// valueFloats bounds the predictions that Each holds at a time: 64 MiB.
const valueFloats = 8 * tileFloats

// Without prepares predictions without the training examples at these positions,
// each by itself. Nil means all. The positions must ascend. It takes one
// gp.Dual.InfluenceTo of these examples: about three factorizations for all
// examples of an exact posterior, and a pass over the examples for any other.
func (e *Explainer) Without(ctx context.Context, rows []int) (*Without, error) {
	if rows == nil {
		rows = span(0, e.n)
	}
	if len(rows) == 0 {
		panic("explain: no training examples to leave out")
	}
	w := &Without{e: e, rows: slices.Clone(rows), need: make([]bool, e.n), index: make([]int, e.n), tile: max(1, valueFloats/(len(rows)*e.c))}
	for at, i := range rows {
		if i < 0 || i >= e.n || at > 0 && i <= rows[at-1] {
			panic("explain: rows of training examples do not ascend")
		}
		w.need[i], w.index[i] = true, at
	}
	// Refuse more training examples than there is memory for.
	c := int64(e.c)
	// need returns the bytes of h_i and of the step of (E15) for all examples, the means, and the predictions of
	// one test row.
	need := func(n int) int64 {
		all := memory.Mul(int64(w.e.n), memory.Mul(c, c+1))
		return memory.Mul(8, memory.Add(all, memory.Mul(2, memory.Mul(int64(n), c))))
	}
	if err := gp.CheckMemory("predictions without each training example", gp.TrainingExamples, len(w.rows), w.e.options.Memory, need); err != nil {
		return nil, err
	}
	if err := e.know(ctx, w.need); err != nil {
		return nil, err
	}
	// Compute the prediction at each example without it.
	w.mean = mat.NewDense(len(w.rows), e.c, nil)
	own := mat.NewDense(e.n*e.c, e.c, e.cov)
	return w, e.visit(ctx, w.need, func(rows []int, b *linearize.Batch) error {
		var mean mat.Dense
		if err := e.dual.PredictTo(ctx, &mean, nil, b); err != nil {
			return fmt.Errorf("explain: prediction of training example %d and others: %w", rows[0], err)
		}
		for j, i := range rows {
			if w.need[i] {
				e.leaveOutTo(w.mean.RawRowView(w.index[i]), mean.RawRowView(j), i, own, i*e.c, 0)
			}
		}
		return nil
	})
}

// leaveOutTo writes the prediction without example i, f_−i(x), from f(x) and the
// covariance of x with the example, the block of cross from this row and column on.
func (e *Explainer) leaveOutTo(dst, f []float64, i int, cross *mat.Dense, row, col int) {
	for k := range dst {
		// f_−i = f − C(x,x_i) (I − Λ_i h_i)⁻¹ r_i (E15)
		dst[k] = f[k] + e.removal(i, cross.RawRowView(row + k)[col:col+e.c])
	}
}

// Rows returns the positions of the examples that are left out, n of them. It must
// not be changed.
func (w *Without) Rows() []int { return w.rows }

// Mean returns the leave-one-out means, n×C: row i is the prediction at example Rows()[i] without
// that example. A row is NaN where the example alone nearly fixes the function and rounding leaves
// no digits. It must not be changed.
func (w *Without) Mean() *mat.Dense { return w.mean }

// Each calls do with every example t of x. Row i of mean, n×C, is the prediction at
// x_t without example Rows()[i], and NaN where Mean is. do may run on
// several goroutines at a time and must not keep mean.
//
// All rows of x share one gp.Cross, whose memory grows with T; slice x to bound it.
// The predictions, T·n·C numbers, are computed in blocks of at most 64 MiB, but at least one test
// row, and each block takes a pass over the examples that are left out.
func (w *Without) Each(ctx context.Context, x *linearize.Batch, do func(t int, mean *mat.Dense) error) error {
	e, n := w.e, len(w.rows)
	if x.Len() > 0 && x.Outputs() != e.c {
		panic("explain: test batch has another number of outputs")
	}
	for k := range par.Tiles(x.Len(), w.tile) {
		lo, hi := par.Bounds(k, x.Len(), w.tile)
		// Compute the predictions without each example, T·n×C.
		x := x.Slice(lo, hi)
		mean := mat.NewDense(x.Len(), e.c, nil)
		if err := e.dual.PredictTo(ctx, mean, nil, x); err != nil {
			return fmt.Errorf("explain: prediction of the test rows: %w", err)
		}
		cross, err := e.dual.Cross(ctx, x)
		if err != nil {
			return fmt.Errorf("explain: cross-covariance of the test rows: %w", err)
		}
		values := mat.NewDense(x.Len()*n, e.c, nil)
		err = e.visit(ctx, w.need, func(rows []int, b *linearize.Batch) error {
			return e.covariances(ctx, cross, x.Len(), rows, b, func(rows []int, tile *mat.Dense) error {
				return par.Do(ctx, x.Len(), func(t int) error {
					for j, i := range rows {
						if w.need[i] {
							e.leaveOutTo(values.RawRowView(t*n+w.index[i]), mean.RawRowView(t), i, tile, t*e.c, j*e.c)
						}
					}
					return nil
				})
			})
		})
		if err != nil {
			return err
		}
		err = par.Do(ctx, hi-lo, func(t int) error { return do(lo+t, dense.Slice(values, t*n, (t+1)*n)) })
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// covariances calls do with the posterior covariances of t test rows with the
// training examples b at these rows, T·C×n·C: one call for all rows if they are consecutive or
// cross is a gp.CombinedCross, and otherwise one call for each run of consecutive rows.
func (e *Explainer) covariances(ctx context.Context, cross gp.Cross, t int, rows []int, b *linearize.Batch, do func(rows []int, tile *mat.Dense) error) error {
	wrap := func(err error) error {
		return fmt.Errorf("explain: posterior covariance with training example %d and others: %w", rows[0], err)
	}
	if q, ok := cross.(gp.CombinedCross); ok && rows[len(rows)-1]-rows[0] >= len(rows) {
		tile := mat.NewDense(t*e.c, len(rows)*e.c, nil)
		if err := q.CombinedTo(ctx, tile, b, gp.PosteriorTerms); err != nil {
			return wrap(err)
		}
		return do(rows, tile)
	}
	for lo, hi := 0, 0; lo < len(rows); lo = hi {
		for hi = lo + 1; hi < len(rows) && rows[hi] == rows[hi-1]+1; {
			hi++
		}
		tile := mat.NewDense(t*e.c, (hi-lo)*e.c, nil)
		if err := cross.TileTo(ctx, tile, rows[lo], b.Slice(lo, hi), gp.PosteriorTerms); err != nil {
			return wrap(err)
		}
		if err := do(rows[lo:hi], tile); err != nil {
			return err
		}
	}
	return nil
}
