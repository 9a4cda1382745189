package variational

import (
	"github.com/funcgp/funcgp/internal/lattice"
	"github.com/funcgp/funcgp/linearize"
)

// StageRefine is the stage that Options.Progress is told of: iterations of a
// refinement, whose number is not known.
const StageRefine = "refine"

// Options are the options of a refinement. Nil and zero mean the defaults.
type Options struct {
	// Tolerance ends the iteration: no site is further than this from its condition, in
	// units of the posterior standard deviation. 0 means 1e-10.
	Tolerance float64
	// MaxIter bounds the iterations; 0 means 500.
	MaxIter int
	// Points is the number of points of quasi–Monte Carlo, which integrates a softmax of
	// more than two classes where a trapezoid has more than eight times as many nodes.
	// 0 means 4,096, and at most 65,536 are allowed.
	Points int
	linearize.Limits
}

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	if d.Tolerance < 0 || d.MaxIter < 0 || d.Points < 0 || d.Points > lattice.Points || d.Memory < 0 {
		panic("variational: invalid options")
	}
	if d.Tolerance == 0 {
		d.Tolerance = 1e-10
	}
	if d.MaxIter == 0 {
		d.MaxIter = 500
	}
	if d.Points == 0 {
		d.Points = 4096
	}
	return d
}

// An ELBO is the evidence lower bound, Value = ExpectedLogLik − KL ≤ log p(y), of the
// linearized model.
type ELBO struct {
	Value          float64
	ExpectedLogLik float64 // Σ E log p(y|f), f ~ q
	KL             float64 // KL(q‖p), of q from the prior
}
