package gp

import (
	"context"

	"gonum.org/v1/gonum/floats"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/ntk"
)

// GradientAtTheta returns the derivatives of EvidenceAtTheta in log s_g, the
// log prior variance of each group, with θ* held fixed (E10). groups are the
// kernels K_g = s_g J_g J_gᵀ and scatter[g] is ‖θ_g−μ_g‖²/s_g. If the whole kernel
// is the only group, the result is the derivative in the log of a common factor
// of Σ₀.
func (e *Exact) GradientAtTheta(ctx context.Context, groups []ntk.Kernel, scatter []float64) ([]float64, error) {
	if len(groups) != len(scatter) {
		panic("gp: groups and scatter differ in length")
	}
	trace, _, err := e.groupTerms(ctx, groups)
	if err != nil {
		return nil, err
	}
	for g, t := range trace {
		// ½‖θ_g−μ_g‖²/s_g − ½ tr(B⁻¹RᵀK_gR) (E10)
		trace[g] = scatter[g]/2 - t/2
	}
	return trace, nil
}

// GradientLinearGaussian returns the derivatives of EvidenceLinearGaussian in
// log s_g at fixed sites (E10); groups are as in GradientAtTheta.
func (e *Exact) GradientLinearGaussian(ctx context.Context, groups []ntk.Kernel) ([]float64, error) {
	trace, quad, err := e.groupTerms(ctx, groups)
	if err != nil {
		return nil, err
	}
	for g, t := range trace {
		// ½ αᵀK_gα − ½ tr(B⁻¹RᵀK_gR) (E10)
		trace[g] = quad[g]/2 - t/2
	}
	return trace, nil
}

// invertRows is the number of rows of B⁻¹ that are formed at once.
const invertRows = 256

// groupTerms returns tr(B⁻¹RᵀK_gR) and αᵀK_gα of each group, from panels of
// rows of R B⁻¹ Rᵀ and of the lower triangle of K_g.
func (e *Exact) groupTerms(ctx context.Context, groups []ntk.Kernel) (trace, quad []float64, err error) {
	n, c := e.x.Len(), e.outputs()
	trace, quad = make([]float64, len(groups)), make([]float64, len(groups))
	step := max(1, invertRows/c)
	w, kg := dense.New(min(n, step)*c, e.g.n), dense.New(min(n, step)*c, e.g.n)
	for p := range par.Tiles(n, step) {
		lo, hi := par.Bounds(p, n, step)
		w.Rows, kg.Rows = (hi-lo)*c, (hi-lo)*c
		if err := e.f.weightRowsTo(ctx, w, lo*c); err != nil {
			return nil, nil, stopped("inverting I + RᵀKR", err)
		}
		rows := e.x.Slice(lo, hi)
		for g, k := range groups {
			if lo > 0 {
				if err := blockTo(ctx, k, dense.View(truncated(dense.Cols(kg, 0, lo*c))), rows, e.x.Slice(0, lo)); err != nil {
					return nil, nil, err
				}
			}
			if err := blockTo(ctx, k, dense.View(truncated(dense.Cols(kg, lo*c, hi*c))), rows, rows); err != nil {
				return nil, nil, err
			}
			t, q := e.panelTerms(w.Data, kg.Data, lo*c, hi*c)
			trace[g] += t
			quad[g] += q
		}
		e.o.Progress(StageInvert, hi, n)
	}
	return trace, quad, nil
}

// panelTerms returns what rows [lo, hi) add to Σ W∘K_g and to αᵀK_gα. Entries left
// of the diagonal tile count twice, because both matrices are symmetric.
func (e *Exact) panelTerms(w, kg []float64, lo, hi int) (trace, quad float64) {
	parts := make([][2]float64, hi-lo)
	par.Do(context.Background(), e.o.Workers, hi-lo, func(i int) error {
		wi, ki := w[i*e.g.n:][:hi], kg[i*e.g.n:][:hi]
		parts[i][0] = 2*floats.Dot(wi[:lo], ki[:lo]) + floats.Dot(wi[lo:], ki[lo:])
		parts[i][1] = e.alpha[lo+i] * (2*floats.Dot(e.alpha[:lo], ki[:lo]) + floats.Dot(e.alpha[lo:hi], ki[lo:]))
		return nil
	})
	for _, p := range parts {
		trace += p[0]
		quad += p[1]
	}
	return trace, quad
}
