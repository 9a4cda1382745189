package ntk

import (
	"fmt"
	"math"
	"slices"
)

// GPrior is the neural g-prior N(0, g·diag(s)⁻¹), whose precisions are in the ratio of
// the information s_p = (1/N) Σ_n J_npᵀΛ_nJ_np that an example has of each parameter at
// θ* [gprior 10–13]. A parameter of which the data have none is no parameter of the
// model: it is held at θ*, with variance 0. NewScaled multiplies the variances by
// another g.
type GPrior struct {
	scale, mean, variance []float64
	dead                  []int
}

var _ Prior = (*GPrior)(nil)

// deadScale is the scale, relative to the largest, up to which a parameter is dead.
const deadScale = 1e-12

// NewGPrior returns the neural g-prior for a factor g. ggn is the diagonal of
// Σ_n J_nᵀΛ_nJ_n over the n training examples, as the diagonal posterior of package
// glm/weightspace has it, and theta is θ*. Both are copied. A number that is NaN or
// Inf, or negative in ggn, is an error that names the parameter, and so is a ggn of
// zeros alone.
func NewGPrior(ggn []float64, n int, theta []float64, g float64) (*GPrior, error) {
	if len(ggn) != len(theta) || n < 1 {
		panic("ntk: the diagonal of a g-prior and θ* differ in length, or there are no examples")
	}
	if !(g > 0) || math.IsInf(g, 1) {
		return nil, fmt.Errorf("ntk: g-prior: g is %v; it must be positive and finite", g)
	}
	p := &GPrior{scale: slices.Clone(ggn), mean: make([]float64, len(ggn)), variance: make([]float64, len(ggn))}
	largest := 0.0
	for i, v := range ggn {
		if !(v >= 0) || math.IsInf(v, 1) {
			return nil, fmt.Errorf("ntk: g-prior: the information of parameter %d is %v; check the network's Jacobian", i, v)
		}
		if math.IsNaN(theta[i]) || math.IsInf(theta[i], 0) {
			return nil, fmt.Errorf("ntk: g-prior: parameter %d is %v; it must be finite", i, theta[i])
		}
		p.scale[i] = v / float64(n)
		largest = max(largest, p.scale[i])
	}
	if largest == 0 {
		return nil, fmt.Errorf("ntk: g-prior: the %d training examples have no information on any of the %d parameters: all are saturated; use an isotropic prior", n, len(ggn))
	}
	for i, s := range p.scale {
		if s <= deadScale*largest {
			p.dead, p.mean[i] = append(p.dead, i), theta[i]
			continue
		}
		// g / s_p [gprior 10]
		if p.variance[i] = g / s; math.IsInf(p.variance[i], 1) {
			return nil, fmt.Errorf("ntk: g-prior: the variance of parameter %d overflows at g = %v", i, g)
		}
	}
	return p, nil
}

// Scale returns s, one number for each parameter; it must not be changed.
func (p *GPrior) Scale() []float64 { return p.scale }

// Dead returns the parameters that are held at θ*, ascending; it must not be changed.
func (p *GPrior) Dead() []int { return p.dead }

// MeanTo implements Prior: 0, and θ* for dead parameters.
func (p *GPrior) MeanTo(dst []float64) {
	checkPriorLen(len(dst), len(p.mean))
	copy(dst, p.mean)
}

// VarianceTo implements Prior.
func (p *GPrior) VarianceTo(dst []float64) {
	checkPriorLen(len(dst), len(p.variance))
	copy(dst, p.variance)
}
