package weightspace

import (
	"gonum.org/v1/gonum/floats"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/sites"
)

// EvidenceAtTheta returns the Laplace evidence at θ* (E7) in nats. The posterior's sites must be those at f(x;θ*).
func (w *Posterior) EvidenceAtTheta() gp.Evidence {
	// Σ log p(y|f) − ½(θ*−μ₀)ᵀΣ₀⁻¹(θ*−μ₀) − ½ log det H̃ (E7)
	return gp.NewEvidence(w.sites.LogLik, gp.Scatter(w.prior, w.theta), w.logDet)
}

// EvidenceLinearGaussian returns the evidence of the linear-Gaussian model (E8) in nats, with the posterior's
// sites, which may be at any f.
func (w *Posterior) EvidenceLinearGaussian() gp.Evidence {
	// d = f_lin(θ̂) − f
	d := w.functionAt(w.mean)
	floats.Sub(d, dense.Flat(w.sites.F))
	// Σ[log p(y|f) + rᵀd − ½dᵀΛd] − ½(θ̂−μ₀)ᵀΣ₀⁻¹(θ̂−μ₀) − ½ log det H̃ (E8)
	logLik := w.sites.LogLik + floats.Dot(dense.Flat(w.sites.Residual), d) - floats.Dot(d, sites.MulBlocks(w.sites.Lambda, d))/2
	return gp.NewEvidence(logLik, floats.Dot(w.z, w.z), w.logDet)
}

// EvidenceRefit returns the Laplace evidence at the mode of the linearized model (E9) in nats. It panics unless the
// posterior was refitted.
func (w *Posterior) EvidenceRefit() gp.Evidence {
	if !w.refit {
		panic("weightspace: the evidence (E9) needs a refit")
	}
	// Σ log p(y|f̂) − ½(θ̂−μ₀)ᵀΣ₀⁻¹(θ̂−μ₀) − ½ log det H̃ (E9)
	return gp.NewEvidence(w.sites.LogLik, floats.Dot(w.z, w.z), w.logDet)
}
