package weightspace

import (
	"context"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/newton"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/internal/sites"
	"github.com/funcgp/funcgp/ntk"
)

// Dual returns the dual vector α = r + Λ(f − f̂), N·C, with r and Λ at the sites' function values f and the mean f̂.
func (w *Posterior) Dual() []float64 {
	alpha := sites.MulBlocks(w.sites.Lambda, newton.Minus(dense.Flat(w.sites.F), w.functionAt(w.mean)))
	floats.Add(alpha, dense.Flat(w.sites.Residual))
	return alpha
}

// GroupTerms returns the parts of the derivatives (E10) in the log prior variance of each group, tr(B⁻¹RᵀK_gR) and
// αᵀK_gα, as gp.Exact.GroupTermsOf returns them from kernels. K_g is computed with the prior variances unit, P numbers;
// the posterior's variances are factor times unit. alpha has N·C numbers.
func (w *Posterior) GroupTerms(ctx context.Context, groups []ntk.Group, factor, unit, alpha []float64) (*gp.GroupTerms, error) {
	leverage, err := w.leverages(ctx, unit)
	if err != nil {
		return nil, err
	}
	t := &gp.GroupTerms{Trace: make([]float64, len(groups)), Quad: make([]float64, len(groups)), Inverse: float64(w.n * w.c)}
	ja := make([]float64, len(w.theta))
	w.x.MulTransVecTo(ja, alpha)
	for g, group := range groups {
		for _, s := range group.Spans {
			for i := s.Offset; i < s.Offset+s.Len(); i++ {
				switch {
				case unit[i] == 0:
					continue // not a parameter of the model
				case factor[g] > 0:
					t.Inverse -= leverage[i]
					t.Trace[g] += leverage[i] / factor[g]
				default:
					t.Trace[g] += unit[i] * leverage[i]
				}
				t.Quad[g] += unit[i] * ja[i] * ja[i]
			}
		}
	}
	return t, nil
}

// leverages returns 1 − [H̃⁻¹]_pp = s_p J_pᵀRB⁻¹RᵀJ_p of each parameter p, with its prior variance s_p and column J_p of
// J. For a parameter with s_p = 0 and unit > 0 it is J_pᵀRB⁻¹RᵀJ_p.
func (w *Posterior) leverages(ctx context.Context, unit []float64) ([]float64, error) {
	p, u, root := len(w.theta), w.h[0].u, w.white.Root
	leverage := make([]float64, p)
	step := min(256, p)
	data := make([]float64, step*p)
	for t := range par.Tiles(p, step) {
		lo, hi := par.Bounds(t, p, step)
		rows := dense.Of(data[:(hi-lo)*(p-lo)], hi-lo, p-lo)
		dense.Zero(rows)
		for i := range rows.Rows {
			rows.Data[i*rows.Stride+i] = 1
		}
		tail := blas64.Triangular{Uplo: blas.Upper, Diag: blas.NonUnit, N: p - lo, Stride: u.Stride, Data: u.Data[lo*u.Stride+lo:]}
		if err := dense.TrsmContext(ctx, blas.Right, blas.NoTrans, 1, tail, rows); err != nil {
			return nil, err
		}
		for i := range rows.Rows {
			row := dense.Row(rows, i)[i:]
			leverage[lo+i] = 1 - floats.Dot(row, row)
		}
	}
	// J_pᵀRB⁻¹RᵀJ_p = H_pp − ‖U⁻ᵀΣ₀^½H_p‖² with H = JᵀΛJ
	var zero []int
	for i, s := range root {
		if s == 0 && unit[i] > 0 {
			zero = append(zero, i)
		}
	}
	h := w.h[0].ggn(p)
	for t := range par.Tiles(len(zero), step) {
		lo, hi := par.Bounds(t, len(zero), step)
		rows := dense.Of(data[:(hi-lo)*p], hi-lo, p)
		for i, at := range zero[lo:hi] {
			row := dense.Row(rows, i)
			for j := range row {
				row[j] = root[j] * w.scale * h.Data[max(at, j)*h.Stride+min(at, j)]
			}
		}
		if err := dense.TrsmContext(ctx, blas.Right, blas.NoTrans, 1, u, rows); err != nil {
			return nil, err
		}
		for i, at := range zero[lo:hi] {
			row := dense.Row(rows, i)
			leverage[at] = w.scale*h.Data[at*h.Stride+at] - floats.Dot(row, row)
		}
	}
	return leverage, nil
}

// Moving returns the term −½ Σ_i tr(C_ii dΛ_i/d log s_g) that the change of the mode adds to the derivatives of
// EvidenceRefit (E10), as gp.Exact.Moving does. The kernels K_g of the groups are computed with the prior variances
// unit. The posterior must be a refit.
func (w *Posterior) Moving(ctx context.Context, groups []ntk.Group, unit []float64, y *gp.Targets) ([]float64, error) {
	var cov mat.Dense
	if err := w.PredictTo(ctx, nil, &cov, w.x); err != nil {
		return nil, err
	}
	// qᵀdf = Σ_i tr(C_ii dΛ_i)
	c, q := w.c, make([]float64, w.n*w.c)
	err := par.Do(ctx, w.n, func(i int) error {
		y.SlopeTo(q[i*c:(i+1)*c], i, w.sites.F.RawRowView(i), dense.Contiguous(dense.Slice(&cov, i*c, (i+1)*c)))
		return nil
	})
	if err != nil {
		return nil, err
	}
	// Jᵀz = Jᵀ(I + ΛK)⁻¹q = Jᵀq − JᵀΛJ Σ₀^½H̃⁻¹Σ₀^½Jᵀq
	p := len(w.theta)
	jz, ja := make([]float64, p), make([]float64, p)
	w.x.MulTransVecTo(jz, q)
	z := floats.MulTo(make([]float64, p), jz, w.white.Root)
	w.h[0].solve(z)
	floats.Mul(z, w.white.Root)
	dense.Symv(-w.scale, w.h[0].ggn(p), dense.Vector(z), 1, dense.Vector(jz))
	w.x.MulTransVecTo(ja, w.Dual())
	moving := make([]float64, len(groups))
	for g, group := range groups {
		for _, s := range group.Spans {
			for i := s.Offset; i < s.Offset+s.Len(); i++ {
				// −½ zᵀK_gα
				moving[g] -= unit[i] * jz[i] * ja[i] / 2
			}
		}
	}
	return moving, nil
}
