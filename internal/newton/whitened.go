package newton

import (
	"math"
	"slices"

	"github.com/funcgp/funcgp/linearize"
)

// A Prior is a Gaussian with independent parameters.
type Prior interface {
	MeanTo(dst []float64)
	VarianceTo(dst []float64)
}

// Whitened has the change to whitened parameters z, which are in units of their prior standard deviation: θ = μ₀ +
// Σ₀^½ z. Their Jacobian is J̃ = J Σ₀^½, and the negative Hessian of the objective is H̃ = I + J̃ᵀΛJ̃. Σ₀ is
// diagonal and may have zeros.
type Whitened struct {
	Mean []float64 // μ₀
	Root []float64 // diagonal of Σ₀^½
}

// NewWhitened returns the Whitened of a prior over p parameters. It panics for a variance that is negative or not
// finite.
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

// Of returns z = Σ₀^-½(θ − μ₀), with 0 where the prior variance is 0.
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

// GradientWarnings returns a warning where norm is above SmallGap: the norm of the gradient Σ₀^½ Jᵀr − z of the log
// posterior in whitened parameters at the end of a refit. gain is the increase of the log posterior that one more
// Newton step would give if it were quadratic.
func GradientWarnings(norm, gain float64) []error {
	if norm <= SmallGap {
		return nil
	}
	return []error{linearize.NewWarning("refit-gap", norm, SmallGap, "Raise the prior precision, or scale the targets.",
		"At the end of the refit the gradient of the log posterior has norm %.3g, and at a mode it is 0. One more step may raise the log posterior by %.3g.", norm, gain)}
}
