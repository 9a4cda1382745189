package explain

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/linearize"
)

// tileFloats bounds a tile of cross-covariances: 8 MiB, and there are two.
const tileFloats = 1 << 20

// A tally adds up the terms of one test row and target while the training
// examples pass by in order.
type tally struct {
	target           Target
	variance         float64 // wᵀ C(x*,x*) w
	sum, abs         sum
	rawSum, rawAbs   sum
	top, plus, minus top
	similar          top
	all              *Columns
	cross, rawCross  []float64 // scratch, length C
}

func (e *Explainer) newTally(t Target, cov []float64) tally {
	w := tally{
		target:   t,
		variance: t.quadratic(cov, e.c),
		top:      top{k: e.options.Top},
		similar:  top{k: e.options.Similar},
		cross:    make([]float64, e.c),
		rawCross: make([]float64, e.c),
	}
	if e.options.Sides {
		w.plus.k, w.minus.k = e.options.Top, e.options.Top
	}
	if e.options.All {
		v := make([]float64, 4*e.n)
		w.all = &Columns{Value: v[:e.n:e.n], Raw: v[e.n : 2*e.n : 2*e.n], Similarity: v[2*e.n : 3*e.n : 3*e.n], Removal: v[3*e.n:]}
	}
	return w
}

// stream sends every training example past every tally. Within a tile the
// rows run in parallel; each tally sees the examples in the data's order.
func (e *Explainer) stream(ctx context.Context, x *linearize.Batch, work [][]tally) error {
	cross, err := e.dual.Cross(x)
	if err != nil {
		return fmt.Errorf("explain: cross-covariance of the test rows: %w", err)
	}
	size := e.options.Tile
	if size == 0 {
		size = max(1, tileFloats/(len(work)*e.c*e.c))
	}
	size = min(size, e.n)
	rows := len(work) * e.c
	post, raw := make([]float64, rows*size*e.c), make([]float64, rows*size*e.c)
	return e.tiles(ctx, size, func(first int, train *linearize.Batch) error {
		cols := train.Len() * e.c
		p, r := mat.NewDense(rows, cols, post[:rows*cols]), mat.NewDense(rows, cols, raw[:rows*cols])
		if err := cross.TileTo(p, first, train, gp.Posterior); err != nil {
			return fmt.Errorf("explain: posterior covariance with training examples from %d: %w", first, err)
		}
		if err := cross.TileTo(r, first, train, gp.Raw); err != nil {
			return fmt.Errorf("explain: kernel with training examples from %d: %w", first, err)
		}
		return par.Do(ctx, e.options.Workers, len(work), func(t int) error {
			for k := range work[t] {
				if err := e.add(&work[t][k], first, train.Len(), t, p, r); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// add sends n examples from first past one tally of test row t.
func (e *Explainer) add(w *tally, first, n, t int, post, raw *mat.Dense) error {
	for j := range n {
		i, from, to := first+j, j*e.c, (j+1)*e.c
		w.target.rowTo(w.cross, func(c int) []float64 { return post.RawRowView(t*e.c + c)[from:to] })
		w.target.rowTo(w.rawCross, func(c int) []float64 { return raw.RawRowView(t*e.c + c)[from:to] })
		// v_i = C(x*,x_i) b_i (E14)
		v := dot(w.cross, e.pseudo[i*e.c:(i+1)*e.c])
		// κ(x*,x_i) α_i (E12)
		k := dot(w.rawCross, e.alpha[i*e.c:(i+1)*e.c])
		if bad := v + k; math.IsNaN(bad) || math.IsInf(bad, 0) {
			return fmt.Errorf("explain: the contribution of training example %d to test row %d is not finite (posterior %g, raw %g); check the prior precision and the data", i, t, v, k)
		}
		w.sum.add(v)
		w.abs.add(math.Abs(v))
		w.rawSum.add(k)
		w.rawAbs.add(math.Abs(k))
		term := v
		if e.options.Terms == gp.Raw {
			term = k
		}
		c := candidate{index: i, score: math.Abs(term), value: v, raw: k, cross: w.cross}
		w.top.offer(c)
		if term < 0 {
			w.minus.offer(c)
		} else {
			w.plus.offer(c)
		}
		e.addKnown(w, c)
	}
	return nil
}

// addKnown is the part that needs the covariance of the example itself.
func (e *Explainer) addKnown(w *tally, c candidate) {
	if w.similar.k == 0 && w.all == nil {
		return
	}
	c.score = e.similarity(w, c.index, c.cross)
	w.similar.offer(c)
	if w.all != nil {
		w.all.Value[c.index], w.all.Raw[c.index] = c.value, c.raw
		w.all.Similarity[c.index], w.all.Removal[c.index] = c.score, e.removal(c.index, c.cross)
	}
}

// tiles yields all training examples in order, at most size at a time.
func (e *Explainer) tiles(ctx context.Context, size int, yield func(first int, b *linearize.Batch) error) error {
	next := 0
	err := e.dual.Data().Batches(ctx, func(first int, b *linearize.Batch) error {
		if first != next || first+b.Len() > e.n {
			return fmt.Errorf("explain: the training data gave examples %d to %d where %d was next of %d", first, first+b.Len(), next, e.n)
		}
		next += b.Len()
		for k := range par.Tiles(b.Len(), size) {
			if err := ctx.Err(); err != nil {
				return err
			}
			lo, hi := par.Bounds(k, b.Len(), size)
			if err := yield(first+lo, b.Slice(lo, hi)); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && next != e.n {
		return fmt.Errorf("explain: the training data ended after %d of %d examples", next, e.n)
	}
	return err
}
