package sparse

import (
	"gonum.org/v1/gonum/floats"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"

	fblas "github.com/funcgp/funcgp/internal/blas"
)

// A Bound states the sign of an approximate evidence's error.
type Bound int

const (
	None  Bound = iota // of either sign
	Lower              // never above the exact evidence
	Upper              // never below it
)

func (b Bound) String() string { return [...]string{"none", "lower", "upper"}[b] }

// Evidence is an approximate log marginal likelihood, its parts, and how it
// stands to the exact one of all training examples at the same sites.
type Evidence struct {
	gp.Evidence
	Bound Bound
}

func newEvidence(logLik, scatter, logDet float64, b Bound) Evidence {
	return Evidence{gp.Evidence{LogLik: logLik, Scatter: scatter, LogDet: logDet, Value: logLik - scatter/2 - logDet/2}, b}
}

// EvidenceLinearGaussian is the evidence of the linear-Gaussian model with the
// posterior's sites (E8), Q in place of K (E13). It has no bound: less is
// explained, and less is charged for it. With FITC, LogLik has the residuals
// integrated out and LogDet counts them; of a subset it is the evidence of
// the subset alone.
func (p *Projected) EvidenceLinearGaussian() Evidence {
	// Σ[log p + rᵀe − ½eᵀΛe] + cᵀw − ½wᵀ(A' − I)w, e = m − f
	gw := make([]float64, len(p.w))
	fblas.Symv(1, p.sums.symmetric(), dense.Vector(p.w), 0, dense.Vector(gw))
	s := &p.sums.scalars
	logLik := s.logLik + s.expansion + s.siteQuad/2 + floats.Dot(p.sums.rhs, p.w) - floats.Dot(p.w, gw)/2
	return newEvidence(logLik, floats.Dot(p.w, p.w), p.logDet+s.siteLogDet, None)
}

// EvidenceLowerBound is EvidenceLinearGaussian less ½ Σ tr Λ_i(k_ii − q_ii), which counts as
// part of LogDet: never above (E8) at the same sites. It is for Nystrom.
func (p *Projected) EvidenceLowerBound() Evidence {
	p.needNystrom()
	e := p.EvidenceLinearGaussian()
	return newEvidence(e.LogLik, e.Scatter, p.logDet+p.sums.weighted, Lower)
}

// EvidenceAtTheta is the Laplace evidence at θ* (E7), for a posterior whose sites are
// at f(x;θ*). scatter is (θ*−μ₀)ᵀΣ₀⁻¹(θ*−μ₀), see gp.Scatter. Q ≤ K makes it
// an upper bound under Nystrom.
func (p *Projected) EvidenceAtTheta(scatter float64) Evidence {
	b := None
	if p.o.Approximation == Nystrom {
		b = Upper
	}
	// Σ log p(y|f) − ½(θ*−μ₀)ᵀΣ₀⁻¹(θ*−μ₀) − ½ log det A' (E7)
	return newEvidence(p.sums.logLik, scatter, p.logDet+p.sums.siteLogDet, b)
}

// EvidenceAtThetaLowerBound is EvidenceAtTheta less ½ Σ tr Λ_i(k_ii − q_ii): never above (E7).
// It is for Nystrom.
func (p *Projected) EvidenceAtThetaLowerBound(scatter float64) Evidence {
	p.needNystrom()
	// log det(I + RᵀKR) ≤ log det A' + Σ tr Λ_i(k_ii − q_ii)
	return newEvidence(p.sums.logLik, scatter, p.logDet+p.sums.weighted, Lower)
}

func (p *Projected) needNystrom() {
	if p.o.Approximation != Nystrom {
		panic("sparse: the lower bound is that of the projected process")
	}
}

// EvidenceRefit is the Laplace evidence at the mode in the span of the inducing
// examples (E9). It panics on a posterior that was not refitted.
func (p *Posterior) EvidenceRefit() Evidence {
	if !p.refit {
		panic("sparse: the evidence (E9) needs a refit")
	}
	// Σ log p(y|f̂) − ½wᵀw − ½αᵀDα − ½ log det A' (E9)
	return newEvidence(p.sites.LogLik, floats.Dot(p.w, p.w)+p.noise, p.logDet+p.sums.siteLogDet, None)
}
