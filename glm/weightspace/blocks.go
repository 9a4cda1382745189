package weightspace

import (
	"context"
	"fmt"
	"math/rand/v2"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/linearize"
)

// BlockPosterior is a posterior whose precision has dense blocks of H, one for each group of parameters, and zeros
// between the blocks. Parameters outside every block are held at the center. The structures Block, LastLayer and
// Subnetwork have this form, and Full has it with a single block.
type BlockPosterior struct {
	structured
	groups   []group
	h        []precision // H̃ of each group, in its whitened parameters
	selected []int       // parameters of a subnetwork in the order of selection
}

var _ Weights = (*BlockPosterior)(nil)

// blocks fits a BlockPosterior with the given groups.
func (f *structured) blocks(ctx context.Context, groups []group) (*BlockPosterior, error) {
	w := &BlockPosterior{structured: *f, groups: groups, h: make([]precision, len(groups))}
	if err := w.checkBlocks(); err != nil {
		return nil, err
	}
	return w, w.factor(ctx)
}

// factor sums the blocks of H̃ at the posterior's sites and factors them.
func (w *BlockPosterior) factor(ctx context.Context) error {
	for i, g := range w.groups {
		w.h[i].identity(len(g.index))
	}
	// H̃ = I + Σ (RᵀJ̃)ᵀ(RᵀJ̃)
	err := w.sum(ctx, w.white.Root, func(i int) blas64.Symmetric { return w.h[i].symmetric(len(w.groups[i].index)) })
	if err != nil {
		return err
	}
	w.logDet = 0
	for i, g := range w.groups {
		if err := w.h[i].factor(ctx, len(g.index)); err != nil {
			return err
		}
		w.logDet += w.h[i].logDet
	}
	return ctx.Err()
}

// sum adds (RᵀJ)ᵀ(RᵀJ) of all examples at the posterior's sites to the matrix of each group. root, if not nil, scales the
// columns of J.
func (w *BlockPosterior) sum(ctx context.Context, root []float64, to func(i int) blas64.Symmetric) error {
	return w.eachBatch(ctx, StagePrecision, func(first int, b *linearize.Batch) error {
		n, step := b.Len(), max(1, squareRows/w.c)
		tiles := make([]*linearize.Batch, par.Tiles(n, step))
		err := par.Do(ctx, len(tiles), func(t int) (err error) {
			lo, hi := par.Bounds(t, n, step)
			tiles[t], err = w.weighted(ctx, first+lo, b.Slice(lo, hi))
			return err
		})
		if err != nil {
			return err
		}
		for i := range w.groups {
			h := to(i)
			// A panel holds as many tiles as fit into it.
			most := max(1, panelExamples(h.N, w.c)/step)
			for lo := 0; lo < len(tiles); lo += most {
				panel, err := w.panel(ctx, &w.groups[i], root, tiles[lo:min(lo+most, len(tiles))], first+lo*step)
				if err != nil {
					return err
				}
				if err := dense.SyrkContext(ctx, blas.Trans, 1, panel, 1, h); err != nil {
					return err
				}
			}
		}
		return ctx.Err()
	})
}

// panel returns the columns of J for the parameters of g and the examples of the batches. root, if not nil, scales the
// columns. An error counts the examples from first on.
func (w *structured) panel(ctx context.Context, g *group, root []float64, batches []*linearize.Batch, first int) (blas64.General, error) {
	at := make([]int, len(batches)+1)
	for i, b := range batches {
		at[i+1] = at[i] + b.Len()
	}
	panel := dense.New(at[len(batches)]*w.c, len(g.index))
	err := par.Do(ctx, len(batches), func(i int) error {
		rows := dense.Rows(panel, at[i]*w.c, at[i+1]*w.c)
		g.columnsTo(rows, batches[i])
		for r := range rows.Rows {
			row := dense.Row(rows, r)
			if k := dense.NotFinite(row); k >= 0 {
				return &gp.NotFiniteError{What: "Jacobian", Row: first + at[i] + r/w.c, Output: r % w.c, Value: row[k]}
			}
			if root == nil {
				continue
			}
			// J̃ = J Σ₀^½
			for k, p := range g.index {
				row[k] *= root[p]
			}
		}
		return nil
	})
	return panel, err
}

// checkBlocks returns a *gp.MemoryError where the blocks need more memory than the budget.
func (w *BlockPosterior) checkBlocks() error {
	others, largest := int64(0), 0 // bytes of all blocks but the largest; parameters of the largest
	for _, g := range w.groups {
		largest = max(largest, len(g.index))
		others = memory.Add(others, memory.Mul(8, memory.Mul(int64(len(g.index)), int64(len(g.index)))))
	}
	others -= min(others, memory.Mul(8, memory.Mul(int64(largest), int64(largest))))
	op := fmt.Sprintf("the %v posterior, whose largest block has %d parameters,", w.structure, largest)
	if w.structure == Full {
		op = fmt.Sprintf("the posterior over %d parameters", largest)
	}
	return gp.CheckMemory(op, gp.Parameters, largest, w.o.Memory, func(p int) int64 { return memory.Add(others, Bytes(p, w.c)) })
}

// Selected returns the parameters of a subnetwork in the order of their selection, and nil for any other structure.
// It must not be changed.
func (w *BlockPosterior) Selected() []int { return w.selected }

// Layers returns the name of each block, and the positions of its parameters in θ. They must not be changed.
func (w *BlockPosterior) Layers() (names []string, parameters [][]int) {
	for _, g := range w.groups {
		names, parameters = append(names, g.name), append(parameters, g.index)
	}
	return names, parameters
}

// PredictTo writes the mean of the T examples of x, T×C, and the covariance J(x) Q⁻¹ J(x)ᵀ of each example's
// outputs, T·C×C. The error is a *gp.NotFiniteError for a NaN or Inf.
func (w *BlockPosterior) PredictTo(ctx context.Context, mean, cov *mat.Dense, x *linearize.Batch) error {
	return w.eachTile(ctx, mean, cov, x, func(cov *mat.Dense, first int, tile *linearize.Batch) error {
		cov.Zero()
		for i := range w.groups {
			step := panelExamples(len(w.groups[i].index), w.c)
			for lo := 0; lo < tile.Len(); lo += step {
				hi := min(lo+step, tile.Len())
				v, err := w.halfPanel(ctx, i, tile.Slice(lo, hi), first+lo)
				if err != nil {
					return err
				}
				if err := addMarginals(ctx, dense.Slice(cov, lo*w.c, hi*w.c), v, w.c); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// halfPanel returns V = J̃ U⁻¹ of group i. V Vᵀ is the group's part of the joint covariance.
func (w *BlockPosterior) halfPanel(ctx context.Context, i int, x *linearize.Batch, first int) (blas64.General, error) {
	var tiles []*linearize.Batch
	for lo, step := 0, max(1, panelTile/w.c); lo < x.Len(); lo += step {
		tiles = append(tiles, x.Slice(lo, min(lo+step, x.Len())))
	}
	v, err := w.panel(ctx, &w.groups[i], w.white.Root, tiles, first)
	if err != nil {
		return v, err
	}
	return v, w.h[i].half(ctx, v)
}

// JointTo writes the mean, T×C, and the joint covariance of all outputs of all examples of x, T·C×T·C. It also
// holds the columns of one block of J̃. The error is a *gp.MemoryError where both together need more than
// Options.Memory.
func (w *BlockPosterior) JointTo(ctx context.Context, mean, cov *mat.Dense, x *linearize.Batch) error {
	width := 0
	for _, g := range w.groups {
		width = max(width, len(g.index))
	}
	return w.joint(ctx, mean, cov, x, width, func() error {
		cov.Zero()
		for i := range w.groups {
			v, err := w.halfPanel(ctx, i, x, 0)
			if err != nil {
				return err
			}
			if err := dense.SyrkContext(ctx, blas.NoTrans, 1, v, 1, dense.Lower(cov.RawMatrix())); err != nil {
				return err
			}
		}
		dense.MirrorLower(cov.RawMatrix())
		return nil
	})
}

// SampleTo writes S draws of the parameters to the rows of dst, which must be S×P. The error is ctx.Err().
func (w *BlockPosterior) SampleTo(ctx context.Context, dst *mat.Dense, rng *rand.Rand) error {
	draws := w.checkDraws(dst)
	if err := ctx.Err(); err != nil {
		return err
	}
	for i := range draws { // all normal numbers of one draw, then those of the next
		row := dst.RawRowView(i)
		copy(row, w.center)
		for _, g := range w.groups {
			for _, p := range g.index {
				row[p] = rng.NormFloat64()
			}
		}
	}
	for i, g := range w.groups {
		z := dense.New(draws, len(g.index))
		for s := range draws {
			pick(dense.Row(z, s), dst.RawRowView(s), g.index)
		}
		if err := w.h[i].draw(ctx, z); err != nil {
			return err
		}
		for s := range draws {
			row := dst.RawRowView(s)
			for k, p := range g.index {
				// θ = center + Σ₀^½ U⁻¹ε
				row[p] = w.center[p] + w.white.Root[p]*dense.Row(z, s)[k]
			}
		}
	}
	return nil
}
