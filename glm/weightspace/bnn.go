package weightspace

import (
	"context"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"
)

// BNN is the prediction that draws parameters θ and runs the network at each draw (E11) [glm 9]. The Links of
// package predictive use the linearized network instead. Where the posterior is wide, a draw is far from the
// trained parameters, and the prediction of the Links is better [glm fig. 1].
type BNN struct {
	// Forward returns f(x;θ), T×C, at the rows of x.
	Forward func(ctx context.Context, theta []float64, x *mat.Dense) (*mat.Dense, error)
	Weights Draws  // the posterior that θ is drawn from
	Samples int    // draws; 0 means 100, a negative number panics
	Seed    uint64 // seed of the draws

	// Progress, if not nil, is called from one goroutine with StageDraws after each draw.
	Progress func(stage string, done, total int)
}

// Draws is a distribution over the parameters from which draws can be made. Every Weights is one.
type Draws interface {
	// Center returns the mean of the parameters, P numbers. It must not be changed.
	Center() []float64
	// SampleTo writes S draws of the parameters to the rows of dst, which must be S×P.
	SampleTo(ctx context.Context, dst *mat.Dense, rng *rand.Rand) error
}

// A Network is a model that can be evaluated at other parameters, such as *network.Network. N is its own type.
type Network[N any] interface {
	// WithTheta returns the model with the parameters theta, P numbers.
	WithTheta(theta []float64) (N, error)
	// Forward returns f(x;θ), T×C, at the rows of x.
	Forward(ctx context.Context, x *mat.Dense) (*mat.Dense, error)
}

// NewBNN returns the prediction of a network and a posterior over its parameters, with the default number of draws
// and seed 0.
func NewBNN[N Network[N]](net N, w Draws) *BNN {
	forward := func(ctx context.Context, theta []float64, x *mat.Dense) (*mat.Dense, error) {
		at, err := net.WithTheta(theta)
		if err != nil {
			return nil, err
		}
		return at.Forward(ctx, x)
	}
	return &BNN{Forward: forward, Weights: w}
}
