package gp

import (
	"context"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize"
)

// InfluenceTo implements OwnSolver. It takes h and q from the factor and the kernel,
// so that they keep their digits also where an example nearly fixes the function
// by itself.
func (e *rowSolver) InfluenceTo(ctx context.Context, h, q *mat.Dense, rows []int, x *linearize.Batch, r *mat.Dense) error {
	n, c := x.Len(), e.outputs()
	dense.SizeTo(h, n*c, c)
	dense.SizeTo(q, n, c)
	lost := make([]bool, len(rows))
	err := e.eachOwn(ctx, rows, func(int) {}, func(at int, o own) error {
		lost[at] = e.selfTo(dense.Slice(h, at*c, (at+1)*c), rows[at], o)
		// (I − Λ_i h_i)⁻¹ r_i (E15)
		o.removalTo(q.RawRowView(at), r.RawRowView(at), func(q, w []float64) {
			e.f.r.mulTransRow(w, rows[at])
			floats.Add(q, w)
		})
		return nil
	})
	if err != nil {
		return err
	}
	for at, i := range rows {
		if !lost[at] {
			continue
		}
		if err := e.refinedSelfTo(ctx, dense.Slice(h, at*c, (at+1)*c), i); err != nil {
			return err
		}
	}
	return nil
}

// fixedBy returns the error for a set of training examples that alone fix the function at their inputs. rows is
// the number of their rows of B.
func fixedBy(rows int) error {
	return &NotPDError{What: "the block of (I + RᵀKR)⁻¹ of the training examples", N: rows, Reason: "they alone fix the function at their inputs"}
}

// stacked returns the stacked indices of all c outputs of examples.
func stacked(rows []int, c int) []int {
	at := make([]int, 0, len(rows)*c)
	for _, i := range rows {
		for j := range c {
			at = append(at, i*c+j)
		}
	}
	return at
}

// selfTo writes h of example i, and tells whether the subtraction has lost most
// digits.
func (e *rowSolver) selfTo(h *mat.Dense, i int, o own) (lost bool) {
	e.priorTo(h, i)
	c := o.v.Rows
	least := make([]float64, c)
	for j := range least {
		least[j] = cancels * h.At(j, j)
	}
	// h = K_ii − K_in R B⁻¹ Rᵀ K_ni (E6)
	subtractOwnGram(h, o.v)
	for j, v := range least {
		lost = lost || !(h.At(j, j) >= v)
	}
	return lost
}

// refinedSelfTo writes h of example i by iterative refinement, which restores
// digits that the difference of prior and explained covariance has lost. It
// writes NaN where a variance is still negative.
func (e *rowSolver) refinedSelfTo(ctx context.Context, h *mat.Dense, i int) error {
	c := e.outputs()
	raw, post := dense.New(c, e.g.n), dense.New(c, e.g.n)
	for j := range c {
		e.g.rowTo(dense.Row(raw, j), i*c+j)
	}
	if _, err := e.posteriorTo(ctx, post, raw); err != nil {
		return err
	}
	for j := range c {
		for k := range c {
			h.Set(j, k, (dense.Row(post, j)[i*c+k]+dense.Row(post, k)[i*c+j])/2)
		}
	}
	for j := range c {
		if !(h.At(j, j) >= 0) {
			h.Apply(func(_, _ int, _ float64) float64 { return math.NaN() }, h)
			return nil
		}
	}
	return nil
}

// removalTo writes q = r + R_S [B⁻¹]_SS⁻¹ R_Sᵀ C_SS r (E15) of the examples S whose rows o holds, which
// it overwrites. root adds R_S w to q. Where the rows of T are not independent, q is NaN, and
// removalTo returns false.
func (o own) removalTo(q, r []float64, root func(q, w []float64)) bool {
	copy(q, r)
	if o.t.Rows == 0 {
		return true
	}
	l, y, ok := o.project()
	if !ok {
		for j := range q {
			q[j] = math.NaN()
		}
		return false
	}
	// [B⁻¹]_SS⁻¹RᵀC = (TTᵀ)⁻¹TVᵀ = L⁻ᵀYᵀ
	w := make([]float64, o.t.Rows)
	for a, v := range r {
		floats.AddScaled(w, v, dense.Row(y, a))
	}
	dense.Trsv(blas.Trans, blas64.Triangular{Uplo: blas.Lower, Diag: blas.NonUnit, N: l.Rows, Stride: l.Stride, Data: l.Data}, dense.Vector(w))
	root(q, w)
	return true
}
