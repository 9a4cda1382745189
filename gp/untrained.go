package gp

import (
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/linearize"
)

// sameOutput is the largest difference from the prior mean, relative to the largest output, at which outputs
// count as the prior mean.
const sameOutput = 1e-9

// An Untrained compares the outputs at θ* with the prior mean. They are the same at every training
// example where θ* is still μ₀: a posterior mean f(x;θ*), in which the targets enter by training
// alone, then ignores them.
type Untrained struct {
	rows      int
	off, size float64
}

// Add adds the outputs of some examples, and the prior mean at them, to the comparison.
func (u *Untrained) Add(f, prior []float64) {
	u.rows += len(f)
	u.off = max(u.off, floats.Distance(prior, f, math.Inf(1)))
	u.size = max(u.size, floats.Norm(prior, math.Inf(1)))
}

// Warnings holds the warning untrained if the outputs of all examples added equal the prior mean and there are
// residuals. It is for a posterior whose mean is f(x;θ*).
func (u *Untrained) Warnings(s *Sites) []error {
	if u.rows == 0 || u.off > sameOutput*u.size || mat.Norm(s.Residual, math.Inf(1)) == 0 {
		return nil
	}
	return []error{linearize.NewWarning("untrained", u.off, sameOutput*u.size, "Train the model, or take Refit or Options.Mean = LinearGaussian, whose means are fitted to the targets.",
		"At every training example the output at θ* is the prior mean (to %.3g), as of a model that was not trained. The posterior mean is that output, whatever the targets are.", u.off)}
}
