package cg

import (
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/funcgp/funcgp/internal/dense"
)

// A siteBlocks is a block-diagonal matrix with a C×C block for each example: R or
// Λ.
type siteBlocks struct {
	c        int
	blocks   []float64 // N·C·C
	diagonal bool      // all entries off the diagonal are zero
}

func newSiteBlocks(blocks []float64, c int) siteBlocks {
	b := siteBlocks{c: c, blocks: blocks, diagonal: true}
	for i, v := range blocks {
		if v != 0 && i/c%c != i%c {
			b.diagonal = false
			break
		}
	}
	return b
}

// mul replaces v by R v, or by Rᵀ v. The first row of v belongs to example first.
func (b siteBlocks) mul(v blas64.General, first int, trans bool) {
	c := b.c
	if b.diagonal {
		eachTile(v.Rows, func(lo, hi int) {
			for i := lo; i < hi; i++ {
				d := b.blocks[(first*c+i)*c+i%c]
				for j, x := range dense.Row(v, i) {
					v.Data[i*v.Stride+j] = d * x
				}
			}
		})
		return
	}
	// Tiles hold whole examples, which are c rows of v each.
	eachTile(v.Rows/c, func(lo, hi int) {
		old := dense.New(c, v.Cols)
		for n := lo; n < hi; n++ {
			// Replace the c rows v by the rows of R v or Rᵀ v; old is scratch.
			v := dense.Rows(v, n*c, (n+1)*c)
			r := b.blocks[(first+n)*c*c : (first+n+1)*c*c]
			dense.Copy(old, v)
			for i := range b.c {
				row := dense.Row(v, i)
				clear(row)
				for a := range b.c {
					s := r[i*b.c+a]
					if trans {
						s = r[a*b.c+i]
					}
					if s == 0 {
						continue
					}
					for j, x := range dense.Row(old, a) {
						row[j] += s * x
					}
				}
			}
		}
	})
}
