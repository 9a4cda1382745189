package cg

import (
	"cmp"

	"github.com/funcgp/funcgp/gp"
)

// Stages that Options.Progress is told of, beside gp.StageNewton.
const (
	StagePreconditioner = "preconditioner" // features of the preconditioner
	StageSolve          = "solve"          // steps of conjugate gradients; their number is not known: total 0
	StageLogDet         = "log det"        // Lanczos steps; their number is not known: total 0
)

// Options are those of Fit, Refit and Load. nil means all defaults.
type Options struct {
	// Mean is what PredictTo and JointTo return as the mean. A Refit always
	// has m + K_*n α.
	Mean gp.Mean
	// Tolerance is the relative residual ‖v − Bx‖/‖v‖ at which a solve ends;
	// 0 means 1e-10.
	Tolerance float64
	// MaxSteps bounds the steps of one solve by conjugate gradients, and of one
	// Lanczos iteration; 0 means 1000. Fit takes at most 2·MaxSteps steps, Refit
	// 21·MaxSteps, and a prediction MaxSteps for each tile of test examples. Each
	// step is one product with the kernel, so this bounds the time as well.
	MaxSteps int
	// Rank bounds the features of the preconditioner. They are added until they
	// explain tr RᵀKR up to 1. 0 means at most 1024, a negative number means none,
	// and short memory lowers the bound.
	Rank int
	// Probes is the number of random vectors for the log determinant; 0 means
	// 16.
	Probes int
	// Seed starts the random choice of the features and of the probes.
	Seed uint64
	// MaxIter bounds the Newton steps of a refit; 0 means 100.
	MaxIter int
	// MaxMemory is the number of bytes that may be taken; 0 means 80 % of
	// what the machine has free (gp.MemoryBudget). The Jacobian of the training
	// examples is kept where it fits, and otherwise computed anew in every pass.
	MaxMemory int64
	// Progress, if not nil, is called as work is done, from one goroutine. It
	// is not called for predictions.
	Progress func(stage string, done, total int)
	// Targets, if not nil, are compared by Load with those of the saved
	// posterior; see gp.Targets. Nothing else uses them.
	Targets *gp.Targets
}

const (
	defaultTolerance = 1e-10
	defaultRank      = 1024
)

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	bad := d.MaxIter < 0 || d.MaxMemory < 0 || d.Mean < gp.Network || d.Mean > gp.LinearGaussian ||
		!(d.Tolerance >= 0 && d.Tolerance < 1) || d.MaxSteps < 0 || d.Probes < 0 || d.Probes == 1
	if bad {
		panic("cg: invalid options of conjugate gradients")
	}
	d.Tolerance = cmp.Or(d.Tolerance, defaultTolerance)
	d.MaxSteps = cmp.Or(d.MaxSteps, 1000)
	d.Probes = cmp.Or(d.Probes, 16)
	d.MaxIter = cmp.Or(d.MaxIter, 100)
	if d.Progress == nil {
		d.Progress = func(string, int, int) {}
	}
	return d
}
