package evidence

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// panelRows is about the number of rows of a kernel in one panel.
const panelRows = 256

// kernels holds the upper triangle of each group's kernel K_g between the training examples. Panel p has the rows
// of some examples, from the column of the first of these examples on.
type kernels struct {
	x      *linearize.Batch
	step   int                // examples in a panel
	mean   []float64          // m at the training examples
	panels [][]blas64.General // panels of each group
}

// examplesOfPanel returns the number of examples in a panel.
func examplesOfPanel(c int) int { return max(1, panelRows/c) }

// kernelBytes returns the memory in bytes of the kernels of some groups.
func kernelBytes(n, c, groups int) int64 {
	nc := memory.Mul(int64(n), int64(c))
	one := memory.Mul(4, memory.Mul(nc, memory.Add(nc, int64(examplesOfPanel(c)*c))))
	return memory.Mul(int64(groups), one)
}

// formKernels forms the kernels of all groups of k.
func formKernels(ctx context.Context, k *ntk.NTK, x *linearize.Batch, progress func(stage string, done, total int)) (*kernels, error) {
	n, c := x.Len(), x.Outputs()
	s := &kernels{x: x, step: examplesOfPanel(c), mean: make([]float64, n*c)}
	k.MeanTo(s.mean, x)
	for g := range k.Groups() {
		one := k.GroupKernel(g)
		var panels []blas64.General
		for p := range par.Tiles(n, s.step) {
			if err := ctx.Err(); err != nil {
				return nil, fmt.Errorf("evidence: stopped while forming the kernels: %w", err)
			}
			lo, hi := par.Bounds(p, n, s.step)
			panel := dense.New((hi-lo)*c, (n-lo)*c)
			rows := x.Slice(lo, hi)
			// Keep only the first columns of a, and cut off its data after the last entry.
			a := panel
			cols := (hi - lo) * c
			a = dense.Cols(a, 0, cols)
			a.Data = a.Data[:(a.Rows-1)*a.Stride+a.Cols]
			one.BlockTo(dense.View(a), rows, rows)
			if hi < n {
				one.BlockTo(dense.View(dense.Cols(panel, (hi-lo)*c, panel.Cols)), rows, x.Slice(hi, n))
			}
			panels = append(panels, panel)
			progress(StageKernels, g*n+hi, k.Groups()*n)
		}
		s.panels = append(s.panels, panels)
	}
	return s, nil
}

// A weighted kernel is Σ_g w_g K_g. Between the training examples it is computed from the held kernels.
type weighted struct {
	ntk.Kernel           // the same kernel, for all other examples
	held       *kernels  // nil where the kernels are not held
	weight     []float64 // w_g
}

// MeanTo implements ntk.Kernel.
func (k *weighted) MeanTo(dst []float64, b *linearize.Batch) {
	if k.held != nil && b == k.held.x {
		copy(dst, k.held.mean)
		return
	}
	k.Kernel.MeanTo(dst, b)
}

// BlockContextTo stops between tiles if the kernel can.
func (k *weighted) BlockContextTo(ctx context.Context, dst *mat.Dense, a, b *linearize.Batch) error {
	if s, ok := k.Kernel.(interface {
		BlockContextTo(ctx context.Context, dst *mat.Dense, a, b *linearize.Batch) error
	}); ok {
		return s.BlockContextTo(ctx, dst, a, b)
	}
	k.Kernel.BlockTo(dst, a, b)
	return nil
}

// GramTo writes the kernel between the examples i0 to i1−1 and j0 to j1−1 of x. It returns false where x are not
// the examples whose kernels are held. Package gp calls it.
func (k *weighted) GramTo(dst *mat.Dense, x *linearize.Batch, i0, i1, j0, j1 int) bool {
	if k.held == nil || x != k.held.x {
		return false
	}
	c := x.Outputs()
	to := dst.RawMatrix()
	// Each panel of examples, by rows and by columns, is one task.
	step := k.held.step
	first, last := i0/step, (i1-1)/step
	par.Do(context.Background(), last-first+1, func(t int) error {
		p := first + t
		lo, hi := max(p*step, i0), min((p+1)*step, i1)
		rows := dense.Rows(to, (lo-i0)*c, (hi-i0)*c)
		// Columns from the panel's first example on are in this panel, earlier ones in other panels.
		if at := max(j0, p*step); at < j1 {
			// Write the entries from row i and column j on, which are in panel p.
			dst := dense.Cols(rows, (at-j0)*c, (j1-j0)*c)
			i := lo * c
			j := at * c
			start := p * k.held.step * k.held.x.Outputs()
			for r := range dst.Rows {
				row := dense.Row(dst, r)
				clear(row)
				for g, w := range k.weight {
					if w != 0 {
						panel := k.held.panels[g][p]
						floats.AddScaled(row, w, panel.Data[(i-start+r)*panel.Stride+j-start:][:len(row)])
					}
				}
			}
		}
		for q := j0 / step; q < p && q*step < j1; q++ {
			from, upTo := max(q*step, j0), min((q+1)*step, j1)
			// Write the entries from row i and column j on, whose transpose is in panel q.
			dst := dense.Cols(rows, (from-j0)*c, (upTo-j0)*c)
			i := lo * c
			j := from * c
			const tile = 32 // rows and columns in a tile that stays in the cache
			start := q * k.held.step * k.held.x.Outputs()
			var sum [tile * tile]float64
			for r0 := 0; r0 < dst.Rows; r0 += tile {
				for c0 := 0; c0 < dst.Cols; c0 += tile {
					rows, cols := min(tile, dst.Rows-r0), min(tile, dst.Cols-c0)
					clear(sum[:])
					for g, w := range k.weight {
						if w == 0 {
							continue
						}
						panel := k.held.panels[g][q]
						for b := range cols {
							from := panel.Data[(j-start+c0+b)*panel.Stride+i-start+r0:][:rows]
							for a, v := range from {
								sum[a*tile+b] += w * v
							}
						}
					}
					for a := range rows {
						copy(dst.Data[(r0+a)*dst.Stride+c0:][:cols], sum[a*tile:])
					}
				}
			}
		}
		return nil
	})
	return true
}
