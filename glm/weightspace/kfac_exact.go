package weightspace

import (
	"context"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	fblas "github.com/funcgp/funcgp/internal/blas"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize"
)

// An exactBlock is the precision of some parameters as a dense matrix. In their
// whitened form it is I + Σ₀^½ H Σ₀^½ = UᵀU.
type exactBlock struct {
	index  []int     // of the parameters in θ
	root   []float64 // diagonal of Σ₀^½
	u      blas64.Triangular
	logDet float64
}

// newExactBlock returns a block without its factor. variance is the diagonal of Σ₀.
func newExactBlock(index []int, variance []float64) *exactBlock {
	b := &exactBlock{index: index, root: make([]float64, len(index))}
	for i, at := range index {
		b.root[i] = math.Sqrt(variance[at])
	}
	return b
}

// factor factors the precision for the given H, of which only entries with i ≤ j are
// read.
func (b *exactBlock) factor(ctx context.Context, workers int, h func(i, j int) float64) error {
	n := len(b.index)
	q := symmetric(n)
	for i := range n {
		row := q.Data[i*n : (i+1)*n]
		for j := i; j < n; j++ {
			row[j] = b.root[i] * h(i, j) * b.root[j]
		}
		row[i]++
	}
	u, ok, err := fblas.PotrfContext(ctx, workers, q)
	if err != nil {
		return err
	}
	if !ok {
		return notPD(n)
	}
	b.set(u)
	return nil
}

// set takes a factor and its log determinant.
func (b *exactBlock) set(u blas64.Triangular) {
	b.u, b.logDet = u, 0
	for i := range u.N {
		b.logDet += 2 * math.Log(u.Data[i*u.Stride+i])
	}
}

// half returns V = J Σ₀^½ U⁻¹ for the rows of J of all examples, so that V Vᵀ is the
// block's part of their covariance.
func (b *exactBlock) half(ctx context.Context, workers int, x *linearize.Batch) (blas64.General, error) {
	v := columnsOf(x, b.index)
	for i := range v.Rows {
		for j, row := 0, dense.Row(v, i); j < v.Cols; j++ {
			row[j] *= b.root[j]
		}
	}
	return v, fblas.TrsmContext(ctx, workers, blas.Right, blas.NoTrans, 1, b.u, v)
}

// sampleTo adds Σ₀^½ U⁻¹ z to the block's parameters in theta.
func (b *exactBlock) sampleTo(theta, z []float64) {
	e := make([]float64, len(b.index))
	for i, at := range b.index {
		e[i] = z[at]
	}
	fblas.Trsv(blas.NoTrans, b.u, dense.Vector(e))
	for i, at := range b.index {
		theta[at] += b.root[i] * e[i]
	}
}

// columnsOf returns the columns of the Jacobian that belong to the given places in θ,
// N·C × len(at).
func columnsOf(b *linearize.Batch, at []int) blas64.General {
	rows := b.Len() * b.Outputs()
	out := dense.New(rows, len(at))
	place := make(map[int]int, len(at))
	for i, p := range at {
		place[p] = i
	}
	for _, k := range b.Blocks {
		var from, to []int // local columns of the block and columns of the result
		local := 0
		for _, s := range k.Spans() {
			for i := range s.Len() {
				if p, ok := place[s.Offset+i]; ok {
					from, to = append(from, local+i), append(to, p)
				}
			}
			local += s.Len()
		}
		if len(from) == 0 {
			continue
		}
		tile := tileOf(k, rows, local)
		for i := range rows {
			src, dst := dense.Row(tile, i), dense.Row(out, i)
			for j, f := range from {
				dst[to[j]] = src[f]
			}
		}
	}
	return out
}

// tileOf returns the dense columns of a block.
func tileOf(k linearize.Block, rows, width int) blas64.General {
	if f, ok := k.(*linearize.Full); ok {
		return f.J.RawMatrix()
	}
	tile := dense.New(rows, width)
	k.TileTo(dense.View(tile))
	return tile
}
