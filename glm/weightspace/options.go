package weightspace

import (
	"cmp"

	"github.com/funcgp/funcgp/gp"
)

// Stages that Options.Progress and BNN.Progress report. A refit also reports
// gp.StageNewton.
const (
	StagePrecision  = "precision"  // training examples summed into the precision H
	StageComparison = "comparison" // test examples that Validate has compared
	StageDraws      = "draws"      // draws of the parameters by a BNN
)

// Options are the options of Fit, Refit and FitStructure. Nil means all defaults.
type Options struct {
	// Mean is the mean that PredictTo and JointTo return and that SampleTo
	// draws around. A refit ignores it and uses the mean at the mode.
	Mean gp.Mean
	// MaxIter bounds the Newton steps of a refit; 0 means 100.
	MaxIter int
	// MaxMemory bounds the memory in bytes; 0 means 80 % of the machine's free
	// memory (see gp.MemoryBudget).
	MaxMemory int64
	// Workers bounds the goroutines; 0 means GOMAXPROCS.
	Workers int
	// Progress, if not nil, is called from one goroutine with a stage, the work
	// done in it and the total work, which is 0 where it is not known.
	Progress func(stage string, done, total int)
	// Center is the mean of the parameters, length P, of a posterior with a structure; nil means θ*. For the mode
	// of the linearized model, give FitStructure the sites at this mode too. Only FitStructure uses it.
	Center []float64
	// Layer names the layer of LastLayer: the name of its tensors up to the last dot.
	// Empty means the dense layer that comes last.
	Layer string
	// Size is the number of parameters of a Subnetwork; 0 means 256, or all where
	// there are fewer.
	Size int
	// Informed makes a Subnetwork take the parameters of smallest marginal variance,
	// those that the data say most about, instead of the largest.
	Informed bool
	// Parameters, if not empty, are the parameters of a Subnetwork, as places in θ, in
	// place of a choice by their variances.
	Parameters []int
}

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	if d.MaxIter < 0 || d.MaxMemory < 0 || d.Workers < 0 || d.Size < 0 || d.Mean < gp.Network || d.Mean > gp.LinearGaussian {
		panic("weightspace: invalid options")
	}
	d.MaxIter = cmp.Or(d.MaxIter, 100)
	if d.Progress == nil {
		d.Progress = func(string, int, int) {}
	}
	return d
}
