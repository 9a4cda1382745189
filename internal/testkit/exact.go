package testkit

import (
	"context"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// GradientAtTheta returns the derivatives of EvidenceAtTheta in log s_g, the log prior variance of
// each group, with θ* held fixed (E10). groups are the kernels K_g = s_g J_g J_gᵀ and scatter[g] is
// ‖θ_g−μ_g‖²/s_g.
func GradientAtTheta(ctx context.Context, e *gp.Exact, groups []ntk.Kernel, scatter []float64) ([]float64, error) {
	t, err := e.GroupTerms(ctx, groups)
	if err != nil {
		return nil, err
	}
	grad := floats.SubTo(make([]float64, len(scatter)), scatter, t.Trace)
	floats.Scale(.5, grad)
	return grad, nil
}

// GradientLinearGaussian returns the derivatives of EvidenceLinearGaussian in log s_g at fixed sites.
func GradientLinearGaussian(ctx context.Context, e *gp.Exact, groups []ntk.Kernel) ([]float64, error) {
	t, err := e.GroupTerms(ctx, groups)
	if err != nil {
		return nil, err
	}
	grad := floats.SubTo(make([]float64, len(groups)), t.Quad, t.Trace)
	floats.Scale(.5, grad)
	return grad, nil
}

// GradientRefit returns the total derivatives of EvidenceRefit in log s_g, in which the mode and its sites move
// with s_g.
func GradientRefit(ctx context.Context, e *gp.Exact, groups []ntk.Kernel, y *gp.Targets) ([]float64, error) {
	grad, err := GradientLinearGaussian(ctx, e, groups)
	if err != nil {
		return nil, err
	}
	t, err := e.GroupTerms(ctx, groups)
	if err != nil {
		return nil, err
	}
	moving, err := e.Moving(ctx, t, y)
	floats.Add(grad, moving)
	return grad, err
}

// RemovalTo writes q = (I − Λ_i h_i)⁻¹ r_i of every training example of e, N·C (E15).
func RemovalTo(ctx context.Context, e *gp.Exact, dst []float64) error {
	n, c := e.Sites().F.Dims()
	var h mat.Dense
	return e.InfluenceTo(ctx, &h, mat.NewDense(n, c, dst), dense.Range(n), e.Data().(*linearize.Batch))
}
