package explain

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/linearize"
)

// tileFloats bounds the numbers in a tile of cross-covariances: 8 MiB. Two tiles are held at a time.
const tileFloats = 1 << 20

// A tally adds up the terms of one test row and target over the training examples
// in order.
type tally struct {
	target           Target
	variance         float64 // wᵀ C(x*,x*) w
	sum, abs         sum
	rawSum, rawAbs   sum
	top, plus, minus top
	similar          top
	subtotals        subtotals
	column           []float64 // the listed kind of term of every example, for the curve
	all              *Columns
	cross, rawCross  []float64   // scratch, length C
	layers           [][]float64 // part of each of Options.Layers in each term, or nil
}

func (e *Explainer) newTally(t Target, cov []float64) tally {
	w := tally{
		target:   t,
		variance: t.quadratic(cov, e.c),
		top:      top{k: e.options.Top},
		similar:  top{k: e.options.Similar},
		cross:    make([]float64, e.c),
		rawCross: make([]float64, e.c),

		subtotals: make(subtotals, e.groups),
	}
	if e.options.Curve {
		w.column = make([]float64, e.n)
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

// stream adds the terms of every training example to every tally. It returns the
// gp.Cross that it used.
func (e *Explainer) stream(ctx context.Context, x *linearize.Batch, work [][]tally) (gp.Cross, error) {
	cross, err := e.dual.Cross(ctx, x)
	if err != nil {
		return nil, fmt.Errorf("explain: cross-covariance of the test rows: %w", err)
	}
	if q, ok := e.combines(cross); ok {
		// Compute the terms from the sums b_iᵀf and α_iᵀf.
		w := mat.NewDense(2*e.n, e.c, nil)
		for i := range e.n {
			w.SetRow(2*i, e.pseudo[i*e.c:(i+1)*e.c])
			w.SetRow(2*i+1, e.alpha[i*e.c:(i+1)*e.c])
		}
		for t := range work {
			for k := range work[t] {
				// The method complete computes cross for the few examples that are listed.
				work[t][k].cross = nil
			}
		}
		sums := tileTerms{
			outputs: 2,
			post: func(dst *mat.Dense, _ int, b *linearize.Batch) error {
				return q.CombinedTo(ctx, dst, b, gp.PosteriorTerms)
			},
			raw: func(dst *mat.Dense, _ int, b *linearize.Batch) error { return q.CombinedTo(ctx, dst, b, gp.RawTerms) },
			terms: func(w *tally, t, _, j int, post, raw *mat.Dense) (v, k float64) {
				at := func(m *mat.Dense, col int) float64 {
					return w.target.weigh(func(c int) float64 { return m.At(t*e.c+c, col) })
				}
				// v_i = C(x*,x_i) b_i (E14) and κ(x*,x_i) α_i (E12)
				return at(post, 2*j), at(raw, 2*j+1)
			},
		}
		return cross, e.pass(ctx, linearize.Combine(e.dual.Data(), w), sums, work)
	}
	whole := tileTerms{
		outputs: e.c,
		post: func(dst *mat.Dense, first int, b *linearize.Batch) error {
			return cross.TileTo(ctx, dst, first, b, gp.PosteriorTerms)
		},
		raw: func(dst *mat.Dense, first int, b *linearize.Batch) error {
			return cross.TileTo(ctx, dst, first, b, gp.RawTerms)
		},
		terms: func(w *tally, t, i, j int, post, raw *mat.Dense) (v, k float64) {
			from, to := j*e.c, (j+1)*e.c
			w.target.rowTo(w.cross, func(c int) []float64 { return post.RawRowView(t*e.c + c)[from:to] })
			w.target.rowTo(w.rawCross, func(c int) []float64 { return raw.RawRowView(t*e.c + c)[from:to] })
			// v_i = C(x*,x_i) b_i (E14) and κ(x*,x_i) α_i (E12)
			return dense.Dot(w.cross, e.pseudo[i*e.c:(i+1)*e.c]), dense.Dot(w.rawCross, e.alpha[i*e.c:(i+1)*e.c])
		},
	}
	return cross, e.pass(ctx, e.dual.Data(), whole, work)
}

// tileTerms says how the terms of a tile of training examples are computed.
type tileTerms struct {
	outputs int // number of outputs of each example
	// post and raw write the posterior covariance and the kernel of the test
	// rows with a tile b, whose first example is number first.
	post, raw func(dst *mat.Dense, first int, b *linearize.Batch) error
	// terms returns the terms of example i, the j-th of a tile, for one tally
	// of test row t.
	terms func(w *tally, t, i, j int, post, raw *mat.Dense) (v, k float64)
}

// pass adds the terms of the examples of src to the tallies, tile by tile. Within a
// tile the test rows run in parallel; each tally adds the examples in the data's
// order.
func (e *Explainer) pass(ctx context.Context, src linearize.Source, p tileTerms, work [][]tally) error {
	size := e.options.tile
	if size == 0 {
		size = max(1, tileFloats/(len(work)*e.c*p.outputs))
	}
	size = min(size, e.n)
	rows := len(work) * e.c
	postData, rawData := make([]float64, rows*size*p.outputs), make([]float64, rows*size*p.outputs)
	return e.tiles(ctx, src, size, func(first int, train *linearize.Batch) error {
		cols := train.Len() * p.outputs
		post, raw := mat.NewDense(rows, cols, postData[:rows*cols]), mat.NewDense(rows, cols, rawData[:rows*cols])
		if err := p.post(post, first, train); err != nil {
			return fmt.Errorf("explain: posterior covariance with training examples from %d: %w", first, err)
		}
		if err := p.raw(raw, first, train); err != nil {
			return fmt.Errorf("explain: kernel with training examples from %d: %w", first, err)
		}
		return par.Do(ctx, len(work), func(t int) error {
			for n := range work[t] {
				w := &work[t][n]
				for j := range train.Len() {
					v, k := p.terms(w, t, first+j, j, post, raw)
					// Add the terms of example i, v and the raw k, to a tally of test row t.
					i := first + j
					if bad := v + k; math.IsNaN(bad) || math.IsInf(bad, 0) {
						return fmt.Errorf("explain: the contribution of training example %d to test row %d is not finite (posterior %g, raw %g); check the prior precision and the data", i, t, v, k)
					}
					w.sum.add(v)
					w.abs.add(math.Abs(v))
					w.rawSum.add(k)
					w.rawAbs.add(math.Abs(k))
					term := v
					if e.options.Terms == gp.RawTerms {
						term = k
					}
					if e.groups > 0 {
						w.subtotals[e.options.Groups[i]].add(term)
					}
					if w.column != nil {
						w.column[i] = term
					}
					c := candidate{index: i, score: math.Abs(term), value: v, raw: k, cross: w.cross}
					w.top.offer(c)
					if term < 0 {
						w.minus.offer(c)
					} else {
						w.plus.offer(c)
					}
					if w.similar.k == 0 && w.all == nil {
						continue
					}
					c.score = e.similarity(w, c.index, c.cross)
					w.similar.offer(c)
					if w.all != nil {
						w.all.Value[c.index], w.all.Raw[c.index] = c.value, c.raw
						w.all.Similarity[c.index], w.all.Removal[c.index] = c.score, e.removal(c.index, c.cross)
					}
				}
			}
			return nil
		})
	})
}

// tiles yields the training examples of src in order, at most size at a time.
func (e *Explainer) tiles(ctx context.Context, src linearize.Source, size int, yield func(first int, b *linearize.Batch) error) error {
	next := 0
	err := src.Batches(ctx, func(first int, b *linearize.Batch) error {
		if first != next || first+b.Len() > e.n {
			return fmt.Errorf("explain: the training data gave examples %d to %d, but example %d of %d was next", first, first+b.Len(), next, e.n)
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

// A sum adds numbers in the order given and keeps track of the rounding error
// (Neumaier's method). Σ κα is then accurate although its terms nearly cancel.
type sum struct{ s, c float64 }

func (a *sum) add(v float64) {
	t := a.s + v
	if math.Abs(a.s) >= math.Abs(v) {
		a.c += (a.s - t) + v
	} else {
		a.c += (v - t) + a.s
	}
	a.s = t
}

func (a *sum) value() float64 { return a.s + a.c }
