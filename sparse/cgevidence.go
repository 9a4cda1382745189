package sparse

import (
	"context"

	"gonum.org/v1/gonum/floats"

	"github.com/funcgp/funcgp/gp"
)

// A CGEvidence is an evidence whose log determinant is estimated.
type CGEvidence struct {
	gp.Evidence
	StdErr float64 // standard error of Value, half that of LogDet
}

// evidence adds the log determinant.
func (p *CG) evidence(ctx context.Context, logLik, scatter float64) (CGEvidence, error) {
	det, err := p.LogDet(ctx)
	if err != nil {
		return CGEvidence{}, err
	}
	e := newEvidence(logLik, scatter, det.Value, None)
	return CGEvidence{e.Evidence, det.StdErr / 2}, nil
}

// EvidenceAtTheta is the Laplace evidence at θ* (E7), for a posterior whose
// sites are at f(x;θ*). scatter is (θ*−μ₀)ᵀΣ₀⁻¹(θ*−μ₀), see gp.Scatter. The
// first of the evidences asked for estimates the log determinant.
func (p *CG) EvidenceAtTheta(ctx context.Context, scatter float64) (CGEvidence, error) {
	// Σ log p(y|f) − ½(θ*−μ₀)ᵀΣ₀⁻¹(θ*−μ₀) − ½ log det B (E7)
	return p.evidence(ctx, p.sites.LogLik, scatter)
}

// EvidenceLinearGaussian is the evidence of the linear-Gaussian model with the
// posterior's sites (E8), wherever they are.
func (p *CG) EvidenceLinearGaussian(ctx context.Context) (CGEvidence, error) {
	n := len(p.prior)
	// d = m + Kα − f
	d, rd := make([]float64, n), make([]float64, n)
	floats.AddTo(d, p.prior, p.kalpha)
	floats.Sub(d, p.local.f)
	// r − Λd
	p.local.subtractLambda(rd, p.local.r, d)
	// Σ[log p(y|f) + rᵀd − ½dᵀΛd] − ½ αᵀKα − ½ log det B (E8)
	logLik := p.sites.LogLik + (floats.Dot(p.local.r, d)+floats.Dot(rd, d))/2
	return p.evidence(ctx, logLik, floats.Dot(p.alpha, p.kalpha))
}

// EvidenceRefit is the Laplace evidence at the mode of the linearized model
// (E9): (E8) with d = 0. It panics on a posterior that was not refitted.
func (p *CG) EvidenceRefit(ctx context.Context) (CGEvidence, error) {
	if !p.refit {
		panic("sparse: the evidence (E9) needs a refit")
	}
	// Σ log p(y|f̂) − ½ αᵀKα − ½ log det B (E9)
	return p.evidence(ctx, p.sites.LogLik, floats.Dot(p.alpha, p.kalpha))
}
