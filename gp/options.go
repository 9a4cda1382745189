package gp

import (
	"cmp"

	"github.com/funcgp/funcgp/linearize"
)

// Mean chooses the predictive mean of Fit.
type Mean int

const (
	Network        Mean = iota // f(x;θ*): the Laplace posterior
	LinearGaussian             // m + K_*n α (E6)
)

// Stages that Options.Progress is told of.
const (
	StageKernel = "kernel" // rows of K
	StageNewton = "newton" // steps of a refit; their number is not known: total 0
	StageInvert = "invert" // rows of B⁻¹, for gradients
	// StageLeaveOneOut counts examples of LeaveOneOutTo.
	StageLeaveOneOut = "leave one out"
)

// Options are those of Fit, Refit and Load. nil means all defaults.
type Options struct {
	// Mean is what PredictTo and JointTo return as the mean. A Refit always
	// has m + K_*n α.
	Mean Mean
	// MaxIter bounds the Newton steps of a refit; 0 means 100.
	MaxIter int
	linearize.Limits
	// Reuse, if not nil, is an earlier posterior of as many training examples and
	// outputs. The new one takes its memory, and the Newton steps of a Refit start
	// with the sites at the mode of a Reuse that is itself a refit, or was conditioned
	// on other sites after one. Reuse must not be used after the call, whatever its
	// error.
	Reuse *Exact
	// Targets, if not nil, are compared by Load with those of the saved
	// posterior; see Targets. Nothing else uses them.
	Targets *Targets
}

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	if d.MaxIter < 0 || d.Memory < 0 || d.Mean < Network || d.Mean > LinearGaussian {
		panic("gp: invalid options")
	}
	d.MaxIter = cmp.Or(d.MaxIter, 100)
	return d
}
