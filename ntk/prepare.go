package ntk

import (
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize"
)

var _ Preparer = (*NTK)(nil)

// Prepare implements Preparer. It keeps Σ₀ J_bᵀ v, 8·P·k bytes, so that a
// product only multiplies by J_a. Where v has so many columns that forming the
// kernel of a and b costs less, each product forms it, tile by tile.
func (k *NTK) Prepare(b *linearize.Batch, v *mat.Dense) Product {
	k.checkBatch(b)
	rows, cols := v.Dims()
	if rows != b.Len()*b.Outputs() {
		panic("ntk: right side has wrong size")
	}
	p := &prepared{k: k, b: b, v: v, cols: cols}
	if rows == 0 || cols == 0 {
		return p
	}
	// Compare the cost of forming the kernel with b and of multiplying by the Jacobian, where a product
	// has only the work for a left to do.
	x := extent{na: chunk, nb: b.Len(), ca: b.Outputs(), cb: b.Outputs()}
	left := extent{na: x.na, ca: x.ca}
	p.formed = k.newPlan(b, b, x).cost+x.entries()*float64(cols) < k.factorsCost(b, left, cols)
	if p.formed {
		return p
	}
	right := v.RawMatrix()
	for lo := 0; lo < cols; lo += mulCols {
		hi := min(cols, lo+mulCols)
		k.eachFactor(b, dense.Cols(right, lo, hi), func(f factor) { p.factors = append(p.factors, placed{f, lo, hi}) })
	}
	return p
}

// prepared is the product κ(·, b) v, with either the factors of v or, if formed is
// true, b and v themselves.
type prepared struct {
	k       *NTK
	b       *linearize.Batch
	v       *mat.Dense
	cols    int
	formed  bool
	factors []placed
}

// A placed factor belongs to columns [lo, hi) of the product.
type placed struct {
	factor
	lo, hi int
}

// MulTo implements Product.
func (p *prepared) MulTo(dst *mat.Dense, a *linearize.Batch) {
	p.k.checkPair(a, p.b)
	if !sizeTo(dst, a.Len()*a.Outputs(), p.cols) {
		return
	}
	out := dst.RawMatrix()
	dense.Zero(out)
	if p.formed {
		p.k.blockPlan(a, p.b).mul(out, p.v.RawMatrix())
		return
	}
	for _, f := range p.factors {
		f.addTo(dense.Cols(out, f.lo, f.hi), a)
	}
}
