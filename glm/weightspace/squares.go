package weightspace

import (
	"context"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/linearize"
)

// squareRows is the number of rows of the Jacobian that a worker squares at once.
const squareRows = 256

// squares returns the diagonal of Σ_n J_nᵀΛ_nJ_n over all examples, P numbers. Where the source can sum it without
// forming J, the source does so.
func (f *structured) squares(ctx context.Context) ([]float64, error) {
	h := make([]float64, len(f.theta))
	if src, ok := f.x.(linearize.Squarer); ok && src.CanSquare() {
		f.o.Show(StagePrecision, 0, f.n)
		err := src.AddSquares(ctx, h, func(lo, hi int) *mat.Dense {
			f.o.Show(StagePrecision, lo, f.n)
			return dense.Slice(f.sites.Root, lo*f.c, hi*f.c)
		})
		if err == nil {
			f.o.Show(StagePrecision, f.n, f.n)
		}
		return h, err
	}
	err := f.eachBatch(ctx, StagePrecision, func(first int, b *linearize.Batch) error {
		// Add the diagonal of Σ_n J_nᵀΛ_nJ_n over the examples of b to h: the sum of squares in each column of RᵀJ.
		n, step := b.Len(), max(1, squareRows/f.c)
		parts := make([]blockSquares, len(b.Blocks))
		for i, k := range b.Blocks {
			parts[i] = newBlockSquares(k, n, f.c, par.Tiles(n, step))
		}
		err := par.Do(ctx, par.Tiles(n, step), func(t int) error {
			lo, hi := par.Bounds(t, n, step)
			w, err := f.weighted(ctx, first+lo, b.Slice(lo, hi))
			if err != nil {
				return err
			}
			for i := range parts {
				parts[i].tile(t, lo, hi-lo, w.Blocks[i])
			}
			return nil
		})
		if err != nil {
			return err
		}
		for i := range parts {
			if err := parts[i].addTo(ctx, h); err != nil {
				return err
			}
		}
		return ctx.Err()
	})
	return h, err
}

// A blockSquares sums the squares in the columns of one block, for the examples of a batch. Tiles of examples are
// independent of each other.
type blockSquares interface {
	// tile adds the n examples of tile t, whose first example has number lo. k is the block for them.
	tile(t, lo, n int, k linearize.Block)
	// addTo adds the sums to h, P numbers.
	addTo(ctx context.Context, h []float64) error
}

// newBlockSquares returns the blockSquares of a block with n examples and c outputs.
func newBlockSquares(k linearize.Block, n, c, tiles int) blockSquares {
	switch k := k.(type) {
	case *linearize.Outer:
		_, out := k.G.Dims()
		s := &outerSquares{o: k, g: dense.New(n, out)}
		if k.Weight != nil {
			_, in := k.A.Dims()
			s.a = dense.New(n, in)
		}
		return s
	case *linearize.Embedding:
		return &tableSquares{parts: make([]*linearize.Embedding, tiles)}
	}
	return &columnSquares{k: k, c: c, width: linearize.Width(k), sums: make([][]float64, tiles)}
}

// outerSquares is the blockSquares of a dense layer. With s_n = Σ_c g_nc² and squares entry by entry, the sums are
// Σ_n s_n (a_n²)ᵀ for the weight and Σ_n s_n for the bias.
type outerSquares struct {
	o    *linearize.Outer
	a, g blas64.General // a_n², N×in, and s_n, N×out
}

func (s *outerSquares) tile(_, lo, n int, k linearize.Block) {
	o := k.(*linearize.Outer)
	for i := range dense.Count(o.G) {
		addSquared(dense.Row(s.g, lo+i/o.C), o.G.RawRowView(i))
	}
	if o.Weight == nil {
		return
	}
	for i := range n {
		addSquared(dense.Row(s.a, lo+i), o.A.RawRowView(i))
	}
}

func (s *outerSquares) addTo(ctx context.Context, h []float64) error {
	if w := s.o.Weight; w != nil {
		l, r := s.g, s.a
		if w.Transposed {
			l, r = s.a, s.g
		}
		dst := dense.Of(h[w.Offset:w.Offset+w.Len()], w.Rows, w.Cols)
		if err := dense.GemmContext(ctx, blas.Trans, blas.NoTrans, 1, l, r, 1, dst); err != nil {
			return err
		}
	}
	if b := s.o.Bias; b != nil {
		for i := range s.g.Rows {
			dense.Axpy(h[b.Offset:b.Offset+b.Len()], 1, dense.Row(s.g, i))
		}
	}
	return nil
}

// columnSquares is the blockSquares of any block, from its columns.
type columnSquares struct {
	k        linearize.Block
	c, width int
	sums     [][]float64 // the sums of each tile
}

func (s *columnSquares) tile(t, _, n int, k linearize.Block) {
	s.sums[t] = make([]float64, s.width)
	if f, ok := k.(*linearize.Full); ok {
		for i := range dense.Count(f.J) {
			addSquared(s.sums[t], f.J.RawRowView(i))
		}
		return
	}
	j := mat.NewDense(s.c, s.width, nil)
	for i := range n {
		k.Slice(i, i+1).TileTo(j)
		for c := range s.c {
			addSquared(s.sums[t], j.RawRowView(c))
		}
	}
}

func (s *columnSquares) addTo(_ context.Context, h []float64) error {
	for _, sum := range s.sums {
		for _, p := range s.k.Spans() {
			dense.Axpy(h[p.Offset:p.Offset+p.Len()], 1, sum[:p.Len()])
			sum = sum[p.Len():]
		}
	}
	return nil
}

// tableSquares is the blockSquares of a table. The derivative of an example in a row that it reads at several
// positions is the sum of the gradients there.
type tableSquares struct{ parts []*linearize.Embedding }

func (s *tableSquares) tile(t, _, _ int, k linearize.Block) { s.parts[t] = k.(*linearize.Embedding) }

func (s *tableSquares) addTo(_ context.Context, h []float64) error {
	for _, k := range s.parts {
		// Add the squares for every row of the table that an example reads, with the sum g of its gradients in that
		// row, for row i of the Jacobian.
		do := func(_, row int, g []float64) {
			at := k.Table.Offset + row*k.Table.Cols
			addSquared(h[at:at+k.Table.Cols], g)
		}
		e := k.Table.Cols
		sum := make([]float64, e)
		for i := range dense.Count(k.G) {
			index := k.Index.RawRowView(i / k.C)
			k.Each(i/k.C, func(t, row int) {
				if slices.Contains(index[:t], float64(row)) {
					return
				}
				clear(sum)
				for at := t; at < len(index); at++ {
					if int(index[at]) == row {
						dense.Axpy(sum, 1, k.Gradient(i, at))
					}
				}
				do(i, row, sum)
			})
		}
	}
	return nil
}

// addSquared adds the squares of x to dst.
func addSquared(dst, x []float64) {
	for i, v := range x {
		dst[i] += v * v
	}
}
