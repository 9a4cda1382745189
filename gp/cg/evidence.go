package cg

import (
	"context"

	"gonum.org/v1/gonum/floats"

	"github.com/funcgp/funcgp/gp"
)

// evidence returns the evidence with the estimated log determinant.
func (p *Posterior) evidence(ctx context.Context, logLik, scatter float64) (gp.Evidence, error) {
	det, err := p.LogDet(ctx)
	if err != nil {
		return gp.Evidence{}, err
	}
	e := gp.NewEvidence(logLik, scatter, det.Value)
	e.StdErr = det.StdErr / 2
	return e, nil
}

// EvidenceAtTheta is the Laplace evidence at θ* (E7), for a posterior whose
// sites are at f(x;θ*). scatter is (θ*−μ₀)ᵀΣ₀⁻¹(θ*−μ₀), see gp.Scatter. The first
// call of an evidence estimates the log determinant, see LogDet.
func (p *Posterior) EvidenceAtTheta(ctx context.Context, scatter float64) (gp.Evidence, error) {
	// Σ log p(y|f) − ½(θ*−μ₀)ᵀΣ₀⁻¹(θ*−μ₀) − ½ log det B (E7)
	return p.evidence(ctx, p.sites.LogLik, scatter)
}

// EvidenceLinearGaussian is the evidence of the linear-Gaussian model with the
// posterior's sites (E8), at any function values.
func (p *Posterior) EvidenceLinearGaussian(ctx context.Context) (gp.Evidence, error) {
	n := len(p.prior)
	// d = m + Kα − f
	d, rd := make([]float64, n), make([]float64, n)
	floats.AddTo(d, p.prior, p.kalpha)
	floats.Sub(d, p.local.F)
	// r − Λd
	p.local.SubtractLambda(rd, p.local.R, d)
	// Σ[log p(y|f) + rᵀd − ½dᵀΛd] − ½ αᵀKα − ½ log det B (E8)
	logLik := p.sites.LogLik + (floats.Dot(p.local.R, d)+floats.Dot(rd, d))/2
	return p.evidence(ctx, logLik, floats.Dot(p.alpha, p.kalpha))
}

// EvidenceRefit is the Laplace evidence at the mode of the linearized model
// (E9), which is (E8) with d = 0. It panics on a posterior that was not refitted.
func (p *Posterior) EvidenceRefit(ctx context.Context) (gp.Evidence, error) {
	if !p.refit {
		panic("cg: the evidence (E9) needs a refit")
	}
	// Σ log p(y|f̂) − ½ αᵀKα − ½ log det B (E9)
	return p.evidence(ctx, p.sites.LogLik, floats.Dot(p.alpha, p.kalpha))
}
