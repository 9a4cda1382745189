package gp

import (
	"context"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/linearize"
)

// exactCross is the cross-kernel of fixed inputs with all training examples.
type exactCross struct {
	e      *Exact
	raw    blas64.General // κ_*n, T·C × N·C
	weight blas64.General // K_*n R B⁻¹ Rᵀ, T·C × N·C
}

var _ Cross = (*exactCross)(nil)

// Cross computes κ(x, ·) with all training examples and its product with
// R B⁻¹ Rᵀ, both T·C×N·C, after which every tile costs one product with the
// rows of K that are kept. It fails with a *MemoryError where the two pass
// Options.MaxMemory.
func (e *Exact) Cross(x *linearize.Batch) (Cross, error) {
	t, c := e.checkInputs(x)
	err := checkMemory("a cross-kernel", t, e.o.MaxMemory, func(t int) int64 {
		return mulCap(16, mulCap(int64(t)*int64(c), int64(e.g.n)))
	})
	if err != nil {
		return nil, err
	}
	q := &exactCross{e: e, raw: newGeneral(t*c, e.g.n), weight: newGeneral(t*c, e.g.n)}
	if t == 0 {
		return q, nil
	}
	e.k.BlockTo(dense(q.raw), x, e.x)
	if err := checkFinite("cross-kernel", dense(q.raw)); err != nil {
		at := err.(*NotFiniteError)
		at.Row, at.Output = at.Row/c, at.Row%c
		return nil, at
	}
	copy(q.weight.Data, q.raw.Data)
	if err := e.f.full(context.Background(), q.weight); err != nil {
		return nil, err
	}
	return q, nil
}

// TileTo implements Cross. Of train only the length matters: K is at hand.
func (q *exactCross) TileTo(dst *mat.Dense, first int, train *linearize.Batch, t Terms) error {
	c := q.e.outputs()
	j0, j1 := first*c, (first+train.Len())*c
	if j0 < 0 || j1 > q.e.g.n {
		panic("gp: range of training examples out of bounds")
	}
	sizeTo(dst, q.raw.Rows, j1-j0)
	if q.raw.Rows == 0 || j0 == j1 {
		return nil
	}
	dst.Copy(dense(truncated(cols(q.raw, j0, j1))))
	switch t {
	case Raw:
	case Posterior:
		// C_*n = K_*n − K_*n R B⁻¹ Rᵀ K_nn (E14)
		return q.e.g.addMulTo(context.Background(), q.e.o.Workers, dst.RawMatrix(), -1, q.weight, j0, j1)
	default:
		panic("gp: unknown terms")
	}
	return nil
}
