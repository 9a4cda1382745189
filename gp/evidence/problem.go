package evidence

import (
	"fmt"
	"math"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// A Form is one of four forms of the evidence.
type Form int

const (
	AtTheta        Form = iota // at θ* (E7); θ* and its sites are held
	LinearGaussian             // of the linear-Gaussian model at the held sites of θ* (E8)
	Refit                      // at the mode of the linearized model, found anew at each point (E9)
	// HeldSites is at the mode v* of the linearized model, found anew at each point, with log det B at the held
	// sites of θ*:
	//
	//	Σ log p(y|f_lin(x;v*)) − ½(v*−μ₀)ᵀΣ₀⁻¹(v*−μ₀) − ½ log det B(Λ at θ*).
	//
	// With one factor on all variances, its stationary points are the fixed points of MacKay's update with the
	// curvature of the trained network, δ = γ/‖v*−μ₀‖² with γ = tr(I − B⁻¹) at the sites of θ*. For a Gaussian
	// likelihood it equals Refit.
	//
	// Compared with (E7) and (E9), it chooses the precision with the highest test log likelihood for a
	// convolutional network with batch normalization on MNIST. Where the linearized model fits the training rows, Λ
	// at v* tends to 0, log det B hardly penalizes flexibility, and (E9) chooses far too small a precision. (E7)
	// chooses too small a precision because of ‖θ*‖², which is arbitrary under normalization.
	HeldSites
)

// String returns "at θ*", "linear-Gaussian", "refit" or "refit, sites held".
func (f Form) String() string {
	return [...]string{"at θ*", "linear-Gaussian", "refit", "refit, sites held"}[f]
}

// refits tells whether the form finds the mode anew at each point.
func (f Form) refits() bool { return f == Refit || f == HeldSites }

// A Problem is a linearized network with its training data and a prior.
type Problem struct {
	X     *linearize.Batch // N training examples, linearized at θ*
	Y     *gp.Targets      // of the N examples
	Theta []float64        // θ*, P numbers
	Prior ntk.Prior        // for an ntk.GPrior, the common factor is g
	// Groups are the groups whose variances have a factor of their own. nil means the groups of Prior, or, if Prior
	// has no groups, one group of all parameters. The groups' precisions are ignored: a factor of 1 is the variance
	// of Prior.
	Groups []ntk.Group
}

// scaled returns the prior of p with a factor of 1 for each group, or for one group if whole.
func (p *Problem) scaled(whole bool) (*ntk.Scaled, error) {
	groups := p.Groups
	if g, ok := p.Prior.(ntk.Grouped); ok && groups == nil {
		groups = g.Groups()
	}
	if whole || len(groups) == 0 {
		groups = []ntk.Group{{Name: allParameters, Spans: []linearize.Span{{Name: allParameters, Rows: 1, Cols: len(p.Theta)}}}}
	}
	factor := make([]float64, len(groups))
	for g := range factor {
		factor[g] = 1
	}
	return ntk.NewScaled(p.Prior, len(p.Theta), groups, factor)
}

// allParameters is the name of the group of all parameters.
const allParameters = "all parameters"

// noise returns the targets with their noise variance multiplied by factor.
func (p *Problem) noise(factor float64) (*gp.Targets, error) {
	if factor == 1 {
		return p.Y, nil
	}
	g, ok := p.Y.Likelihood.(*glm.Gaussian)
	if !ok {
		return nil, fmt.Errorf("evidence: a %T has no noise variance to change", p.Y.Likelihood)
	}
	scaled, err := g.ScaleNoise(factor)
	if err != nil {
		return nil, err
	}
	return p.Y.Under(scaled), nil
}

// hasNoise tells whether the likelihood has a noise variance.
func (p *Problem) hasNoise() bool {
	_, ok := p.Y.Likelihood.(*glm.Gaussian)
	return ok
}

// over returns v/factor, or 0 where v is 0.
func over(v, factor float64) float64 {
	if v == 0 {
		return 0
	}
	return v / factor
}

// finite tells whether v is neither NaN nor infinite.
func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
