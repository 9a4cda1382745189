package weightspace

import (
	"cmp"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/linearize"
)

// Stages in Options.Progress and BNN.Progress. A refit also has the stage gp.StageNewton.
const (
	StagePrecision  = "precision"  // training examples summed into the precision H
	StageComparison = "comparison" // test examples compared by Validate
	StageDraws      = "draws"      // draws of the parameters by a BNN
)

// Options are options of Fit, Refit and FitStructure. nil means all defaults.
type Options struct {
	// Mean is the mean that PredictTo and JointTo write and that SampleTo draws around. A refit ignores it and uses
	// the mode.
	Mean gp.Mean
	// MaxIter is the most Newton steps of a refit; 0 means 100.
	MaxIter int
	linearize.Limits
	// Reuse, if not nil, is an earlier posterior of the same examples for Fit and Refit. The new one takes its memory, and
	// its JᵀΛJ where Λ is the same or a multiple; a Refit starts at the mode of the last refit. Reuse must not be used after
	// the call, whatever its error.
	Reuse *Posterior
	// Center is the mean of the parameters of a posterior with a structure, P numbers; nil means θ*. Only
	// FitStructure uses it. If it is the mode of the linearized model, give FitStructure the sites at this mode.
	Center []float64
	// Layer is the layer of LastLayer, as the name of its tensors up to the last dot. Empty means the last dense
	// layer.
	Layer string
	// Size is the number of parameters of a Subnetwork; 0 means 256, or all where there are fewer.
	Size int
	// Informed makes a Subnetwork choose the parameters with the smallest marginal variances, which the data
	// determine best, instead of the largest.
	Informed bool
	// Parameters, if not empty, are the parameters of a Subnetwork as positions in θ. They replace the choice by
	// variances.
	Parameters []int
}

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	if d.MaxIter < 0 || d.Memory < 0 || d.Size < 0 || d.Mean < gp.Network || d.Mean > gp.LinearGaussian {
		panic("weightspace: invalid options")
	}
	d.MaxIter = cmp.Or(d.MaxIter, 100)
	return d
}
