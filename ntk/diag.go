package ntk

import (
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize"
)

// DiagTo implements Kernel.
func (k *NTK) DiagTo(dst *mat.Dense, b *linearize.Batch) {
	k.checkBatch(b)
	c := b.Outputs()
	if !sizeTo(dst, b.Len()*c, c) {
		return
	}
	p := k.newPlan(b, b, extent{na: 1, nb: 1, ca: c, cb: c, same: true})
	whole := dst.RawMatrix()
	k.each(b.Len(), chunk, func(s *scratch, e examples) {
		part := dense.Rows(whole, e.lo*c, e.hi*c)
		dense.Zero(part)
		for _, t := range p.direct {
			x, _ := t.columns(e, e)
			addGrams(part, x, c, t.variance)
		}
		for _, t := range p.terms {
			t.addDiag(part, e, s)
		}
		for _, all := range p.pieces {
			all.eachCut(max(1, partFloats/c), func(pc piece) {
				root := k.roots(pc.lo, pc.hi)
				pc.eachPart(b, e, s, func(x blas64.General, some examples) {
					scaleColumns(x, root)
					addGrams(dense.Rows(part, (some.lo-e.lo)*c, (some.hi-e.lo)*c), x, c, 1)
				})
			})
		}
		for n := range e.len() {
			mirror(dense.Rows(part, n*c, (n+1)*c), 0, c, 0, c)
		}
	})
}
