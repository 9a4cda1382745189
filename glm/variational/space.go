package variational

import (
	"context"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// A space conditions the prior on Gaussian sites, over functions or over parameters.
type space interface {
	// condition makes s the sites of the posterior.
	condition(ctx context.Context, s *gp.Sites) error
	// prior returns m at the training examples, N·C.
	prior() []float64
	// mean returns the posterior mean there, N·C.
	mean() []float64
	// covTo writes the posterior covariance of each example, N·C×C.
	covTo(ctx context.Context, dst *mat.Dense) error
	// divergence returns KL(q‖p), where trace is Σ tr W_i V_i.
	divergence(trace float64) float64
}

// functionSpace holds an N·C×N·C kernel.
type functionSpace struct {
	x *linearize.Batch
	e *gp.Exact
}

func newFunctionSpace(ctx context.Context, k ntk.Kernel, x *linearize.Batch, s *gp.Sites, o *Options) (*functionSpace, error) {
	e, err := gp.Fit(ctx, k, x, s, &gp.Options{Mean: gp.LinearGaussian, MaxMemory: o.MaxMemory, Workers: o.Workers})
	return &functionSpace{x: x, e: e}, err
}

func (f *functionSpace) condition(ctx context.Context, s *gp.Sites) (err error) {
	f.e, err = f.e.Recondition(ctx, s)
	return err
}

func (f *functionSpace) prior() []float64 { return f.e.PriorMean() }
func (f *functionSpace) mean() []float64  { return f.e.TrainingMean() }

func (f *functionSpace) covTo(ctx context.Context, dst *mat.Dense) error {
	var q mat.Dense
	return f.e.InfluenceTo(ctx, dst, &q, dense.Range(f.x.Len()), f.x)
}

func (f *functionSpace) divergence(trace float64) float64 {
	// KL = ½(αᵀKα + log det B − Σ tr W V)
	at := f.e.EvidenceLinearGaussian()
	return (at.Scatter + at.LogDet - trace) / 2
}

// weightSpace holds a P×P precision.
type weightSpace struct {
	x     *linearize.Batch
	p     ntk.Prior
	theta []float64
	o     weightspace.Options
	m     []float64
	w     *weightspace.Posterior
}

func newWeightSpace(ctx context.Context, prior ntk.Prior, theta []float64, x *linearize.Batch, s *gp.Sites, o *Options) (*weightSpace, error) {
	w := &weightSpace{x: x, p: prior, theta: theta, o: weightspace.Options{Mean: gp.LinearGaussian, MaxMemory: o.MaxMemory, Workers: o.Workers}}
	mu0 := make([]float64, len(theta))
	prior.MeanTo(mu0)
	w.m = w.at(mu0)
	return w, w.condition(ctx, s)
}

// at returns f_lin(x;θ) (E1), N·C.
func (w *weightSpace) at(theta []float64) []float64 {
	f, d := make([]float64, len(dense.Flat(w.x.F))), make([]float64, len(theta))
	floats.SubTo(d, theta, w.theta)
	w.x.MulVecTo(f, d)
	floats.Add(f, dense.Flat(w.x.F))
	return f
}

func (w *weightSpace) condition(ctx context.Context, s *gp.Sites) (err error) {
	w.w = nil // so that two precisions are never held
	w.w, err = weightspace.Fit(ctx, w.x, s, w.p, w.theta, &w.o)
	return err
}

func (w *weightSpace) prior() []float64 { return w.m }
func (w *weightSpace) mean() []float64  { return w.at(w.w.Mean()) }

func (w *weightSpace) covTo(ctx context.Context, dst *mat.Dense) error {
	return w.w.PredictTo(ctx, nil, dst, w.x)
}

func (w *weightSpace) divergence(trace float64) float64 {
	// KL = ½(‖θ̂ − μ₀‖² + log det H + log det Σ₀ − Σ tr W V), the norm in Σ₀⁻¹
	at := w.w.EvidenceLinearGaussian()
	return (at.Scatter + at.LogDet - trace) / 2
}
