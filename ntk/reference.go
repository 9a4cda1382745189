package ntk

import (
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/linearize"
)

// Reference computes the kernel by its definition, from J as one dense matrix. Use
// it only to check another Kernel, such as NTK.
type Reference struct{ prior *NTK }

var (
	_ Kernel  = (*Reference)(nil)
	_ MulToer = (*Reference)(nil)
)

// Dense returns the reference kernel of networks linearized at theta under a
// prior. It panics as New does.
func Dense(prior Prior, theta []float64) *Reference {
	return &Reference{prior: New(prior, theta)}
}

// MeanTo implements Kernel.
func (r *Reference) MeanTo(dst []float64, b *linearize.Batch) {
	r.prior.checkBatch(b)
	n, c := b.Len(), b.Outputs()
	if len(dst) != n*c {
		panic("ntk: mean has wrong length")
	}
	if n == 0 {
		return
	}
	var j mat.Dense
	b.JacobianTo(&j)
	// F + J(μ₀−θ*)
	mat.NewVecDense(n*c, dst).MulVec(&j, mat.NewVecDense(b.P, r.prior.shift))
	for i := range dst {
		dst[i] += b.F.At(i/c, i%c)
	}
}

// scaled returns J √Σ₀.
func (r *Reference) scaled(b *linearize.Batch) *mat.Dense {
	var j mat.Dense
	b.JacobianTo(&j)
	scaleColumns(j.RawMatrix(), r.prior.roots(0, b.P))
	return &j
}

// BlockTo implements Kernel.
func (r *Reference) BlockTo(dst *mat.Dense, a, b *linearize.Batch) {
	r.prior.checkPair(a, b)
	if !sizeTo(dst, a.Len()*a.Outputs(), b.Len()*b.Outputs()) {
		return
	}
	dst.Mul(r.scaled(a), r.scaled(b).T())
	if g := dst.RawMatrix(); a == b {
		mirror(g, 0, g.Rows, 0, g.Cols)
	}
}

// DiagTo implements Kernel.
func (r *Reference) DiagTo(dst *mat.Dense, b *linearize.Batch) {
	r.prior.checkBatch(b)
	c := b.Outputs()
	if !sizeTo(dst, b.Len()*c, c) {
		return
	}
	j := r.scaled(b)
	for n := range b.Len() {
		one := j.Slice(n*c, (n+1)*c, 0, b.P)
		dst.Slice(n*c, (n+1)*c, 0, c).(*mat.Dense).Mul(one, one.T())
	}
}

// MulTo implements MulToer.
func (r *Reference) MulTo(dst *mat.Dense, a, b *linearize.Batch, v *mat.Dense) {
	r.prior.checkPair(a, b)
	rows, cols := v.Dims()
	if rows != b.Len()*b.Outputs() {
		panic("ntk: right side has wrong size")
	}
	if !sizeTo(dst, a.Len()*a.Outputs(), cols) {
		return
	}
	var u mat.Dense
	u.Mul(r.scaled(b).T(), v)
	dst.Mul(r.scaled(a), &u)
}
