package gp

import (
	"context"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"

	fblas "github.com/funcgp/funcgp/internal/blas"
	"github.com/funcgp/funcgp/internal/par"
)

// RemovalTo writes q_i = (I − Λ_i h_i)⁻¹ r_i of every training example, N·C:
// leaving out example i moves f(x*) by −C(x*,x_i) q_i to first order (E15).
// It costs about as much as three factorizations.
func (e *Exact) RemovalTo(ctx context.Context, dst []float64) error {
	if len(dst) != e.g.n {
		panic("gp: destination has a wrong length")
	}
	n, c := e.x.Len(), e.outputs()
	step := max(1, invertRows/c)
	inv := newGeneral(min(n, step)*c, e.g.n)
	hat := newGeneral(inv.Rows, inv.Rows)
	left := make([]float64, inv.Rows*c) // [B⁻¹]_ii
	for p := range par.Tiles(n, step) {
		if err := ctx.Err(); err != nil {
			return err
		}
		lo, hi := par.Bounds(p, n, step)
		rows := (hi - lo) * c
		inv.Rows, hat.Rows, hat.Cols = rows, rows, rows
		e.f.inverseRowsTo(inv, lo*c)
		for i := range rows {
			copy(left[i*c:(i+1)*c], inv.Data[i*inv.Stride+lo*c+i/c*c:])
		}
		// Rᵀh = B⁻¹RᵀK, since C R = K R B⁻¹; only its diagonal blocks are used.
		eachRow(e.o.Workers, inv, func(row []float64) { e.f.r.mulTransRow(row, 0) })
		clear(hat.Data)
		e.g.addMulTo(hat, 1, inv, lo*c, hi*c)
		for i := lo; i < hi; i++ {
			at := (i - lo) * c
			if err := e.removal(dst[i*c:(i+1)*c], i, left[at*c:(at+c)*c], hat.Data[at*hat.Stride+at:], hat.Stride); err != nil {
				return err
			}
		}
		e.o.Progress(StageInvert, hi, n)
	}
	return nil
}

// removal writes q of example i from [B⁻¹]_ii, which it overwrites, and Rᵀh.
func (e *Exact) removal(q []float64, i int, left, hat []float64, stride int) error {
	c := len(q)
	r, v := e.sites.Residual.RawRowView(i), make([]float64, c)
	for j := range v {
		v[j] = floats.Dot(hat[j*stride:][:c], r)
	}
	u, ok := fblas.Potrf(blas64.Symmetric{Uplo: blas.Upper, N: c, Stride: c, Data: left})
	if !ok {
		return &NotPDError{N: c}
	}
	solveVec(u, v)
	e.f.r.mulTransRow(v, i)
	// (I − Λ_i h_i)⁻¹ r_i = r_i + R_i [B⁻¹]_ii⁻¹ R_iᵀ h_i r_i (E15)
	floats.AddTo(q, r, v)
	return nil
}
