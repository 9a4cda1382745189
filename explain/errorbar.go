package explain

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize"
)

// # The error bar of a term
//
// The labels enter C(x*,x_i) b_i (E14) through b_i alone: at fixed sites C does not depend on
// them, and b_i does not depend on the labels of other examples. So the question is how
// much b_i would differ had the label of example i been drawn anew, from what the other
// examples predict for it. They predict f(x_i) with the leave-one-out mean and covariance, mean_−i
// and cov_−i (E17). A label observes f(x_i) with noise covariance Λ_i⁻¹, so the pseudo-observation
// b_i = Λ_i(z_i − m_i) has z_i ~ N(mean_−i, cov_−i + Λ_i⁻¹), and
//
//	V_i = cov b_i = Λ_i(cov_−i + Λ_i⁻¹)Λ_i = Λ_i + Λ_i cov_−i Λ_i.
//
// The variance of the term is C(x*,x_i) V_i C(x_i,x*). With cov_−i = (h_i⁻¹ − Λ_i)⁻¹ it is
//
//	C(x*,x_i) (Λ_i⁻¹ − h_i)⁻¹ C(x_i,x*) = C(x*,x_i) R_i ([B⁻¹]_ii)⁻¹ R_iᵀ C(x_i,x*)
//	                                    = v_−i(x*) − v(x*),
//
// which is how much larger the posterior variance at x* is without the example, at the
// same sites. This is the law of total variance: the amount by which a label reduces the variance
// is the variance of the mean over its values. V_i is computed as the sum of two positive
// semidefinite matrices, so it stays accurate where the leverage of the example is near 1 or its
// Λ_i singular.
//
// Where Λ_i is −∂²log p/∂f² and the likelihood a natural exponential family (Bernoulli,
// categorical, Poisson, Gaussian), the residual of a label drawn given f has the covariance
// Λ_i exactly; the normal predictive of f(x_i) is that of the Laplace approximation.

// A pseudoCovariance is a posterior that computes V_i itself, because its terms use only a part of
// the covariance that LeaveOneOutTo gives. A sparse posterior is one.
type pseudoCovariance interface {
	// PseudoCovarianceTo writes V_i of the n examples x at these rows of Data, n·C×C.
	PseudoCovarianceTo(ctx context.Context, v *mat.Dense, rows []int, x *linearize.Batch) error
}

// spread caches V_i of the examples that were needed, N·C×C.
type spread struct {
	spreadKnown []bool
	spreads     []float64
}

// knowSpread fills the cache for the examples i with need[i].
func (e *Explainer) knowSpread(ctx context.Context, need []bool) error {
	if !e.options.ErrorBars {
		return nil
	}
	return e.fill(ctx, need, &e.spreadKnown, func(ctx context.Context, rows []int, b *linearize.Batch) error {
		if e.spreadKnown == nil {
			e.spreadKnown = make([]bool, e.n)
			e.spreads = make([]float64, e.n*e.c*e.c)
		}
		v := mat.NewDense(len(rows)*e.c, e.c, nil)
		if d, ok := e.dual.(pseudoCovariance); ok {
			if err := d.PseudoCovarianceTo(ctx, v, rows, b); err != nil {
				return fmt.Errorf("explain: error bar of the term of training example %d and others: %w", rows[0], err)
			}
		} else {
			if err := e.dual.LeaveOneOutTo(ctx, nil, v, rows, b); err != nil {
				return fmt.Errorf("explain: error bar of the term of training example %d and others: %w", rows[0], err)
			}
			for j, i := range rows {
				block, lambda := dense.Slice(v, j*e.c, (j+1)*e.c), dense.Slice(e.dual.Sites().Lambda, i*e.c, (i+1)*e.c)
				// V_i = Λ_i + Λ_i cov_−i Λ_i
				var moved mat.Dense
				moved.Product(lambda, block, lambda)
				block.Add(lambda, &moved)
			}
		}
		for j, i := range rows {
			if e.spreadKnown[i] { // other goroutines may be reading it
				continue
			}
			copy(e.spreads[i*e.c*e.c:(i+1)*e.c*e.c], rowsOf(v, j*e.c, e.c))
			e.spreadKnown[i] = true
		}
		return nil
	})
}

// reduction is the variance of the term of example i, C(x*,x_i) V_i C(x_i,x*), 0 where
// Options.ErrorBars is not set.
func (e *Explainer) reduction(i int, cross []float64) float64 {
	if !e.options.ErrorBars {
		return 0
	}
	v, sum := e.spreads[i*e.c*e.c:(i+1)*e.c*e.c], 0.0
	for a, w := range cross {
		sum += w * floats.Dot(v[a*e.c:(a+1)*e.c], cross)
	}
	if sum < 0 { // rounding where C(x_i,x*) lies in the null space of Λ_i
		return 0
	}
	return sum
}

// SD is the standard deviation of Value over labels of the example drawn anew from what
// the other examples predict for it: the square root of VarianceReduction. It is NaN where
// VarianceReduction is.
func (t *Term) SD() float64 { return math.Sqrt(t.VarianceReduction) }

// Distinguishable tells whether Value is more than two SD from 0. Otherwise another draw of the
// example's label might have given the term the other sign. It is false where SD is NaN or zero.
func (t *Term) Distinguishable() bool {
	sd := t.SD()
	return sd > 0 && math.Abs(t.Value) > 2*sd
}
