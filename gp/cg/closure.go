package cg

import (
	"context"
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/funcgp/funcgp/internal/newton"
)

// warnClosure warns where the sums Σ C(x,x_i) b_i (E14) miss Kα at the training
// examples. With e = b − (I+ΛK)α they miss it by Ce = K(I+ΛK)⁻¹e. Where a bound
// does not show that this is small, warnClosure solves for it roughly.
func (p *Posterior) warnClosure(ctx context.Context) error {
	e, f := make([]float64, len(p.alpha)), make([]float64, len(p.alpha))
	p.local.SubtractLambda(e, p.pseudo, p.kalpha)
	floats.Sub(e, p.alpha)
	floats.AddTo(f, p.prior, p.kalpha)
	// |(Ce)_i| ≤ √k_ii √‖K‖ ‖e‖, and ‖K‖ ≤ tr K
	bound := p.features.largest * math.Sqrt(float64(len(e))) * floats.Norm(e, 2)
	if newton.RelativeTo(bound, f) <= newton.SmallOpen {
		return nil
	}
	s, ke := p.sys.solver(1), make([]float64, len(e))
	if _, err := s.solveDual(ctx, column(e), polish); err != nil {
		return err
	}
	if err := p.data.mulTo(ctx, column(ke), column(e), &s.sum); err != nil {
		return err
	}
	p.warnings = append(p.warnings, newton.OpenWarnings(newton.RelativeTo(floats.Norm(ke, math.Inf(1)), f))...)
	return nil
}
