package weightspace

import (
	"fmt"

	"github.com/funcgp/funcgp/gp"
)

// Stages of the work that Options.Progress and BNN.Progress are told of. A refit
// also reports gp.StageNewton.
const (
	StagePrecision  = "precision"  // training examples summed into the precision H
	StageComparison = "comparison" // test examples that Validate has compared
	StageDraws      = "draws"      // draws of the parameters by a BNN
)

// Options are the options of FitWeights and RefitWeights. Nil means all
// defaults.
type Options struct {
	// Mean is the mean that PredictTo and JointTo return and that SampleTo
	// draws around. After a refit it is that of the mode, whatever Mean is.
	Mean gp.Mean
	// MaxIter bounds the Newton steps of a refit; 0 means 100.
	MaxIter int
	// MaxMemory is the number of bytes that may be taken; 0 means 80 % of
	// what the machine has free (see gp.MemoryBudget).
	MaxMemory int64
	// Workers bounds the goroutines; 0 means GOMAXPROCS.
	Workers int
	// Progress, if not nil, is called with a stage, the work done in it and
	// its total, or 0 where that is not known; always from one goroutine.
	Progress func(stage string, done, total int)
	// Targets, if not nil, are compared by Load with those of the saved
	// posterior; see gp.Targets. Nothing else uses them.
	Targets *gp.Targets
}

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	if d.MaxIter < 0 || d.MaxMemory < 0 || d.Workers < 0 || d.Mean < gp.Network || d.Mean > gp.LinearGaussian {
		panic("weightspace: invalid weight options")
	}
	if d.MaxIter == 0 {
		d.MaxIter = 100
	}
	if d.Progress == nil {
		d.Progress = func(string, int, int) {}
	}
	return d
}

// GradientWarning says that the gradient of the log posterior in the whitened
// parameters is not zero at the result of a refit, as it is at the mode.
type GradientWarning struct {
	Norm float64 // ‖Σ₀^½ Jᵀr − z‖
	Gain float64 // what the log posterior would gain by one more Newton step were it quadratic
}

func (w *GradientWarning) Error() string {
	return fmt.Sprintf("weightspace: where the refit ended the gradient of the log posterior has the norm %.3g and not 0, and one more step may raise the log posterior by %.3g; "+
		"scale the targets or raise the prior precision", w.Norm, w.Gain)
}
