package gp

import (
	"context"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/linearize"
)

// A Likelihood gives log p(y|f) of one example and its derivatives. f and
// residual have length C, lambda and root C·C, row-major. y is the example's
// row of targets, whose length the likelihood chooses. A nil destination is
// skipped. Calls must not change y or f. gptest.Likelihood tests one.
type Likelihood interface {
	// Expand returns log p(y|f) and writes the residual ∂log p/∂f,
	// Λ = −∂²log p/∂f² and a root of it, Λ = R Rᵀ (E3), (E4). Where −∂²log p/∂f² is
	// indefinite, Λ is its expectation over y; see Scored.
	Expand(residual, lambda, root, y, f []float64) (logp float64)
	MeanTo(dst, f []float64) // g⁻¹(f)
}

// A Sloped likelihood gives the derivative of Λ, which the derivative of a refit's evidence needs (E10). For
// any other likelihood that derivative comes from differences of Expand.
type Sloped interface {
	Likelihood
	// SlopeTo writes u, length C, with which dΛ = R diag(u) Rᵀ is the derivative of Λ
	// at f in the direction df. R is the root that Expand returns.
	SlopeTo(u, y, f, df []float64)
}

// A Scored likelihood has a log p that is not concave in f, so that its Λ is the Fisher
// information, the expectation of −∂²log p/∂f² over y given f, in place of −∂²log p/∂f²
// itself. Its refit is Fisher scoring: the objective may have several modes, of which
// the refit finds one uphill of θ*. Leave-one-out is one step of Fisher scoring, and
// evidences are those of Laplace with the Fisher information in place of the Hessian.
type Scored interface {
	Likelihood
	// CurvatureTo writes −∂²log p/∂f², C·C row-major, which may be indefinite.
	CurvatureTo(dst, y, f []float64)
}

// A Latent is a Gaussian posterior over function values. Inputs must have as
// many outputs and parameters as the training examples, and be linearized at the same
// parameters; a wrong size panics, and so do other parameters, where fingerprints tell
// (see linearize.ModelFingerprint.Mismatch). Function-space posteriors refuse another graph, too.
// An empty destination is sized, a nil one is skipped. A cancelled context
// ends a call with ctx.Err(), which may be wrapped.
type Latent interface {
	// PredictTo writes the mean, T×C, and the covariance of each example's
	// outputs, T·C×C.
	PredictTo(ctx context.Context, mean, cov *mat.Dense, x *linearize.Batch) error
	// JointTo writes the mean, T×C, and the joint covariance, T·C×T·C.
	JointTo(ctx context.Context, mean, cov *mat.Dense, x *linearize.Batch) error
}

// Terms chooses the kernel of the sum over training examples by which a
// prediction is explained.
type Terms int

const (
	PosteriorTerms Terms = iota // C(x*,x_i) b_i (E14)
	RawTerms                    // κ(x*,x_i) α_i (E12)
)

// A Dual is a posterior whose mean is a sum over training examples. What its
// methods return is shared and must not be changed. A cancelled context ends a
// call with ctx.Err(), which may be wrapped.
type Dual interface {
	Latent
	Data() linearize.Source   // the training examples
	Sites() *Sites            // at the function values the posterior is built on
	Alpha() []float64         // dual vector α, N·C (E5)
	PseudoTargets() []float64 // b, N·C (E5)
	// Cross prepares the kernels between the examples of x and the training
	// examples. It takes one cross-kernel and one solve.
	Cross(ctx context.Context, x *linearize.Batch) (Cross, error)
	// InfluenceTo writes how much training examples determine the function at
	// their own inputs. x holds the n examples at these rows of Data, which
	// ascend. h receives the n blocks h_i = C(x_i,x_i), n·C×C, of the same C as
	// in Cross; q receives (I − Λ_i h_i)⁻¹ r_i, n×C (E15), where Λ_i is the weight
	// that the posterior gives the example, and r_i is that of LeaveOneOutTo. A
	// number of which rounding leaves no digits is NaN. RemovalFrom finds q from h.
	InfluenceTo(ctx context.Context, h, q *mat.Dense, rows []int, x *linearize.Batch) error
	// LeaveOneOutTo writes the posterior of the function at training inputs without
	// the example itself (E17): the mean, n×C, and the covariance of each example's
	// outputs, n·C×C, for the n examples at these rows of Data, which ascend. x
	// holds them. It is exact for a Gaussian likelihood and one Newton step from the
	// posterior for any other. A nil destination is skipped. The numbers of an
	// example of which rounding leaves no digits are NaN. LeaveOneOutFrom finds both
	// from h.
	//
	// The step starts at what PredictTo gives as the mean f of the training
	// examples: mean = f − cov·r, where r is α (E5) if that mean is a sum over
	// training examples, and the residual of Sites if it is f(x;θ*). In the second
	// case it means something only where θ* is stationary.
	LeaveOneOutTo(ctx context.Context, mean, cov *mat.Dense, rows []int, x *linearize.Batch) error
}

// Cross gives the kernel between fixed inputs x and ranges of the training
// examples, tile by tile.
type Cross interface {
	// TileTo writes C(x, train) (PosteriorTerms) or κ(x, train) (RawTerms), T·C × n·C,
	// where train holds the examples [first, first+n) of Data.
	TileTo(ctx context.Context, dst *mat.Dense, first int, train *linearize.Batch, t Terms) error
}

// A CombinedCross is a Cross that also takes examples which are not training
// examples, with any number of outputs, such as the sums of outputs that
// linearize.Combine makes. Where a posterior's Cross is one, package explain
// needs the Jacobians of two sums of each example instead of those of all C
// outputs.
type CombinedCross interface {
	Cross
	// CombinedTo writes C(x, train) (PosteriorTerms) or κ(x, train) (RawTerms), T·C × n·K,
	// for n examples with K outputs each.
	CombinedTo(ctx context.Context, dst *mat.Dense, train *linearize.Batch, t Terms) error
}
