package newton

import (
	"math"
	"slices"

	"github.com/funcgp/funcgp/linearize"
)

// A Prior has independent parameters.
type Prior interface {
	MeanTo(dst []float64)
	VarianceTo(dst []float64)
}

// Whitened parameters z are in units of their prior standard deviation, θ = μ₀ + Σ₀^½ z. There
// the Jacobian is J̃ = J Σ₀^½, and the negative Hessian of the objective is H̃ = I + J̃ᵀΛJ̃.
// Σ₀ is diagonal and may hold zeros.
type Whitened struct {
	Mean []float64 // μ₀
	Root []float64 // diagonal of Σ₀^½
}

// NewWhitened returns those of a prior of p parameters. A variance that is negative or not
// finite panics.
func NewWhitened(prior Prior, p int) Whitened {
	w := Whitened{make([]float64, p), make([]float64, p)}
	prior.MeanTo(w.Mean)
	prior.VarianceTo(w.Root)
	for i, v := range w.Root {
		if !(v >= 0) || math.IsInf(v, 1) {
			panic("newton: prior variance is not finite and nonnegative")
		}
		w.Root[i] = math.Sqrt(v)
	}
	return w
}

// Of returns z = Σ₀^-½(θ − μ₀), 0 where the prior has no variance.
func (w Whitened) Of(theta []float64) []float64 {
	z := make([]float64, len(theta))
	for i, s := range w.Root {
		if s > 0 {
			z[i] = (theta[i] - w.Mean[i]) / s
		}
	}
	return z
}

// Theta returns θ = μ₀ + Σ₀^½ z.
func (w Whitened) Theta(z []float64) []float64 {
	theta := slices.Clone(w.Mean)
	for i, s := range w.Root {
		theta[i] += s * z[i]
	}
	return theta
}

// GradientWarnings holds a warning where the gradient of the log posterior in the whitened
// parameters, Σ₀^½ Jᵀr − z of this norm, is more than SmallGap where the refit ended. gain is the
// increase of the log posterior in one more Newton step, if it were quadratic.
func GradientWarnings(norm, gain float64) []error {
	if norm <= SmallGap {
		return nil
	}
	return []error{linearize.NewWarning("refit-gap", norm, SmallGap, "Raise the prior precision, or scale the targets.",
		"At the end of the refit the gradient of the log posterior has norm %.3g, and at a mode it is 0. One more step may raise the log posterior by %.3g.", norm, gain)}
}
