package ntk

import (
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/linearize"
)

// diagFloats bounds the columns that a worker makes for the diagonal, unless
// one example's single column has more.
const diagFloats = 1 << 19

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
		part := rowsOf(whole, e.lo*c, e.hi*c)
		zero(part)
		for _, t := range p.terms {
			t.addDiag(part, e, s)
		}
		for _, rest := range p.pieces {
			for rest.width() > 0 {
				var pc piece
				pc, rest = rest.cut(max(1, diagFloats/(e.len()*c)))
				x := s.general(slotColumns, e.len()*c, pc.width())
				pc.fill(x, b, e, s)
				scaleColumns(x, k.root[pc.lo:pc.hi])
				addGrams(part, x, c, 1)
			}
		}
		for n := range e.len() {
			mirror(rowsOf(part, n*c, (n+1)*c), 0, c, 0, c)
		}
	})
}
