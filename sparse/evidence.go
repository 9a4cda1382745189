package sparse

import (
	"gonum.org/v1/gonum/floats"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
)

// bounded returns the evidence with these parts and the sign of its error.
func bounded(logLik, scatter, logDet float64, b gp.Bound) gp.Evidence {
	e := gp.NewEvidence(logLik, scatter, logDet)
	e.Bound = b
	return e
}

// EvidenceLinearGaussian is the evidence of the linear-Gaussian model with the
// posterior's sites (E8), with Q in the place of K (E13). The sign of its error is
// not known, as Q makes both the fit and the log determinant smaller. For a subset of
// data it is the evidence of the subset alone.
func (p *Projected) EvidenceLinearGaussian() gp.Evidence {
	// Σ[log p + rᵀe − ½eᵀΛe] + cᵀw − ½wᵀ(A' − I)w, e = m − f
	gw := make([]float64, len(p.w))
	dense.Symv(1, p.sums.symmetric(), dense.Vector(p.w), 0, dense.Vector(gw))
	s := &p.sums.scalars
	logLik := s.logLik + s.expansion + floats.Dot(p.sums.rhs, p.w) - floats.Dot(p.w, gw)/2
	return gp.NewEvidence(logLik, floats.Dot(p.w, p.w), p.logDet)
}

// EvidenceLowerBound returns EvidenceLinearGaussian minus ½ Σ tr Λ_i(k_ii − q_ii), a
// lower bound of (E8) at the same sites. The trace is part of LogDet. It panics for
// a subset of data.
func (p *Projected) EvidenceLowerBound() gp.Evidence {
	p.needAllData()
	e := p.EvidenceLinearGaussian()
	return bounded(e.LogLik, e.Scatter, p.logDet+p.sums.weighted, gp.Lower)
}

// LogDet implements gp.Solver, with log det A'.
func (p *Projected) LogDet() float64 { return p.logDet }

// LogDetBound implements gp.BoundSolver. At θ* the evidence is an upper bound, because Q ≤ K. After a refit it may be off
// either way, because the mode is searched in the span of the inducing examples. For a subset of data it is exact.
func (p *Projected) LogDetBound() gp.Bound {
	if p.ofSubset || p.refit {
		return gp.None
	}
	return gp.Upper
}

// EvidenceAtTheta returns the Laplace evidence at θ* (E7), for a posterior whose
// sites are at f(x;θ*). scatter is (θ*−μ₀)ᵀΣ₀⁻¹(θ*−μ₀), see gp.Scatter.
func (p *Projected) EvidenceAtTheta(scatter float64) gp.Evidence {
	// Σ log p(y|f) − ½(θ*−μ₀)ᵀΣ₀⁻¹(θ*−μ₀) − ½ log det A' (E7)
	return bounded(p.sums.logLik, scatter, p.logDet, p.LogDetBound())
}

// EvidenceAtThetaLowerBound returns EvidenceAtTheta minus ½ Σ tr Λ_i(k_ii − q_ii), a
// lower bound of (E7). It panics for a subset of data.
func (p *Projected) EvidenceAtThetaLowerBound(scatter float64) gp.Evidence {
	p.needAllData()
	// log det(I + RᵀKR) ≤ log det A' + Σ tr Λ_i(k_ii − q_ii)
	return bounded(p.sums.logLik, scatter, p.logDet+p.sums.weighted, gp.Lower)
}

func (p *Projected) needAllData() {
	if p.ofSubset {
		panic("sparse: a subset of data has no lower bound of the evidence of all data")
	}
}
