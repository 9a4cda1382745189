package gp

import (
	"context"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	fblas "github.com/funcgp/funcgp/internal/blas"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/linearize"
)

// RemovalTo writes q_i = (I − Λ_i h_i)⁻¹ r_i of every training example, N·C:
// leaving out example i moves f(x*) by −C(x*,x_i) q_i to first order (E15).
// It costs about as much as three factorizations.
func (e *Exact) RemovalTo(ctx context.Context, dst []float64) error {
	if len(dst) != e.g.n {
		panic("gp: destination has a wrong length")
	}
	rows := make([]int, e.x.Len())
	for i := range rows {
		rows[i] = i
	}
	return e.removals(ctx, dst, rows, func(done int) { e.o.Progress(StageInvert, done, len(rows)) })
}

// RemovalRowsTo writes q_i of RemovalTo for the training examples at these
// rows of Data, which ascend, n×C. The work is two solves an output. Of x only
// the length matters, as in Cross.TileTo.
func (e *Exact) RemovalRowsTo(ctx context.Context, dst *mat.Dense, rows []int, x *linearize.Batch) error {
	if x.Len() != len(rows) {
		panic("gp: rows and examples differ in number")
	}
	c := e.outputs()
	sizeTo(dst, len(rows), c)
	q := make([]float64, len(rows)*c)
	if err := e.removals(ctx, q, rows, func(int) {}); err != nil {
		return err
	}
	for i := range rows {
		dst.SetRow(i, q[i*c:(i+1)*c])
	}
	return nil
}

// removals writes q_i of the examples at these rows, which ascend, one after
// the other. It forms the rows of B⁻¹ a panel at a time.
func (e *Exact) removals(ctx context.Context, dst []float64, rows []int, progress func(done int)) error {
	n, c := len(rows), e.outputs()
	step := max(1, invertRows/c)
	inv := newGeneral(min(n, step)*c, e.g.n)
	left := make([]float64, inv.Rows*c) // [B⁻¹]_ii
	var at []int
	for p := range par.Tiles(n, step) {
		lo, hi := par.Bounds(p, n, step)
		at = at[:0]
		for _, i := range rows[lo:hi] {
			for j := range c {
				at = append(at, i*c+j)
			}
		}
		inv.Rows = len(at)
		if err := e.f.inverseRowsTo(ctx, inv, at); err != nil {
			return stopped("inverting I + RᵀKR", err)
		}
		for t, i := range at {
			copy(left[t*c:(t+1)*c], inv.Data[t*inv.Stride+i/c*c:])
		}
		// Rᵀh = B⁻¹RᵀK, since C R = K R B⁻¹; only its diagonal blocks are used.
		eachRow(e.o.Workers, inv, func(row []float64) { e.f.r.mulTransRow(row, 0) })
		err := par.Do(ctx, e.o.Workers, hi-lo, func(t int) error {
			i := rows[lo+t]
			h := newGeneral(c, c)
			own := blas64.General{Rows: c, Cols: inv.Cols, Stride: inv.Stride, Data: inv.Data[t*c*inv.Stride:]}
			if err := e.g.addMulTo(ctx, 1, h, 1, own, i*c, (i+1)*c); err != nil {
				return err
			}
			return e.removal(dst[(lo+t)*c:(lo+t+1)*c], i, left[t*c*c:(t+1)*c*c], h.Data)
		})
		if err != nil {
			return err
		}
		progress(hi)
	}
	return nil
}

// removal writes q of example i from [B⁻¹]_ii, which it overwrites, and Rᵀh.
func (e *Exact) removal(q []float64, i int, left, hat []float64) error {
	c := len(q)
	r, v := e.sites.Residual.RawRowView(i), make([]float64, c)
	for j := range v {
		v[j] = floats.Dot(hat[j*c:(j+1)*c], r)
	}
	u, ok := fblas.Potrf1(blas64.Symmetric{Uplo: blas.Upper, N: c, Stride: c, Data: left})
	if !ok {
		return &NotPDError{N: c}
	}
	solveVec(u, v)
	e.f.r.mulTransRow(v, i)
	// (I − Λ_i h_i)⁻¹ r_i = r_i + R_i [B⁻¹]_ii⁻¹ R_iᵀ h_i r_i (E15)
	floats.AddTo(q, r, v)
	return nil
}
