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
	// distance returns the squared distance of the posterior mean from the prior mean,
	// ‖θ̄ − μ₀‖² in Σ₀⁻¹.
	distance() float64
	// divergence returns KL(q‖p), where trace is Σ tr W_i V_i.
	divergence(trace float64) float64
}

// functionSpace holds an N·C×N·C kernel.
type functionSpace struct {
	x *linearize.Batch
	e *gp.Exact
	f []float64 // its mean at the training examples, N·C
}

func newFunctionSpace(ctx context.Context, k ntk.Kernel, x *linearize.Batch, s *gp.Sites, o *Options) (*functionSpace, error) {
	e, err := gp.Fit(ctx, k, x, s, &gp.Options{Mean: gp.LinearGaussian, Limits: linearize.Limits{Memory: o.Memory}})
	return &functionSpace{x: x, e: e}, err
}

func (f *functionSpace) condition(ctx context.Context, s *gp.Sites) (err error) {
	if f.e, err = f.e.Recondition(ctx, s); err == nil {
		f.f, err = f.e.TrainingMean(ctx)
	}
	return err
}

func (f *functionSpace) prior() []float64  { return f.e.PriorMean() }
func (f *functionSpace) mean() []float64   { return f.f }
func (f *functionSpace) distance() float64 { return f.e.Scatter() }

func (f *functionSpace) covTo(ctx context.Context, dst *mat.Dense) error {
	var q mat.Dense
	return f.e.InfluenceTo(ctx, dst, &q, dense.Range(f.x.Len()), f.x)
}

func (f *functionSpace) divergence(trace float64) float64 {
	// KL = ½(αᵀKα + log det B − Σ tr W V)
	return (f.e.Scatter() + f.e.LogDet() - trace) / 2
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

func newWeightSpace(ctx context.Context, x *linearize.Batch, s *gp.Sites, prior ntk.Prior, theta []float64, o *Options) (*weightSpace, error) {
	w := &weightSpace{x: x, p: prior, theta: theta, o: weightspace.Options{Mean: gp.LinearGaussian, Limits: linearize.Limits{Memory: o.Memory}}}
	mu0 := make([]float64, len(theta))
	prior.MeanTo(mu0)
	w.m = w.at(mu0)
	return w, w.condition(ctx, s)
}

// at returns f_lin(x;θ) (E1), N·C.
func (w *weightSpace) at(theta []float64) []float64 {
	f, d := make([]float64, w.x.Len()*w.x.Outputs()), make([]float64, len(theta))
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

func (w *weightSpace) prior() []float64  { return w.m }
func (w *weightSpace) mean() []float64   { return w.at(w.w.Mean()) }
func (w *weightSpace) distance() float64 { return w.w.EvidenceLinearGaussian().Scatter }

func (w *weightSpace) covTo(ctx context.Context, dst *mat.Dense) error {
	return w.w.PredictTo(ctx, nil, dst, w.x)
}

func (w *weightSpace) divergence(trace float64) float64 {
	// KL = ½(‖θ̄ − μ₀‖² + log det H + log det Σ₀ − Σ tr W V), the norm in Σ₀⁻¹
	return (w.distance() + w.w.LogDet() - trace) / 2
}

// meanField has independent parameters. Its mean is that of a space with the full
// covariance at the same sites, so that a step in the mean is a Newton step.
type meanField struct {
	space
	center   func() []float64 // θ̄
	x        *linearize.Batch
	p        ntk.Prior
	theta    []float64
	variance []float64 // of the prior
	o        *Options
	w        *weightspace.DiagonalPosterior
}

func (d *meanField) condition(ctx context.Context, s *gp.Sites) error {
	if err := d.space.condition(ctx, s); err != nil {
		return err
	}
	return d.vary(ctx, s)
}

// vary makes the precision 1/Σ₀ + diag Σ J_iᵀW_iJ_i.
func (d *meanField) vary(ctx context.Context, s *gp.Sites) error {
	o := &weightspace.Options{Center: d.center(), Limits: linearize.Limits{Memory: d.o.Memory}}
	w, err := weightspace.FitStructure(ctx, weightspace.Diagonal, d.x, s, d.p, d.theta, o)
	if err != nil {
		return err
	}
	d.w = w.(*weightspace.DiagonalPosterior)
	return nil
}

func (d *meanField) covTo(ctx context.Context, dst *mat.Dense) error {
	return d.w.PredictTo(ctx, nil, dst, d.x)
}

func (d *meanField) divergence(float64) float64 {
	// KL = ½(‖θ̄ − μ₀‖² + Σ_p σ²_p/Σ₀_p − 1 − log(σ²_p/Σ₀_p)), the norm in Σ₀⁻¹, with
	// σ²/Σ₀ − 1 = −Σ₀h/(1 + Σ₀h)
	sum := d.distance() + d.w.LogDet()
	for p, h := range d.w.GGN() {
		sum -= d.variance[p] * h / (1 + d.variance[p]*h)
	}
	return sum / 2
}
