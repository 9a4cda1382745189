package cg

import "github.com/funcgp/funcgp/gp"

// Progress stages of the matrix-free posterior.
const (
	StagePreconditioner = "preconditioner" // features of the preconditioner
	StageSolve          = "solve"          // steps of conjugate gradients; their number is not known: total 0
	StageLogDet         = "log det"        // Lanczos steps; their number is not known: total 0
)

// Options are those of FitCG and RefitCG. nil means all defaults.
type Options struct {
	// Mean is what PredictTo and JointTo return as the mean. RefitCG always
	// has m + K_*n α.
	Mean gp.Mean
	// Tolerance is the relative residual ‖v − Bx‖/‖v‖ at which a solve ends;
	// 0 means 1e-10.
	Tolerance float64
	// MaxSteps bounds the steps of conjugate gradients of one solve, and those
	// of Lanczos; 0 means 1000. The dual vector takes two solves at most, that
	// of a refit 21, and predictions one for each tile of test examples. Each
	// step is one product with the kernel, so this bounds the time as well.
	MaxSteps int
	// Rank bounds the features of the preconditioner. They are chosen until
	// they explain tr RᵀKR up to 1; 0 means 1024 at most, fewer where memory
	// is short, and a negative number none.
	Rank int
	// Probes is the number of random vectors for the log determinant; 0 means
	// 16.
	Probes int
	// Seed is that of the features and of the probes.
	Seed uint64
	// MaxIter bounds the Newton steps of a refit; 0 means 100.
	MaxIter int
	// MaxMemory is the number of bytes that may be taken; 0 means 80 % of
	// what the machine has free (gp.MemoryBudget). The training examples'
	// Jacobian is kept where it fits, and else linearized anew in every pass.
	MaxMemory int64
	// Workers bounds the goroutines; 0 means GOMAXPROCS. The kernel uses as many
	// as its own options say.
	Workers int
	// Progress, if not nil, is called as work is done, from one goroutine. It
	// is not told of predictions.
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
	bad := d.MaxIter < 0 || d.MaxMemory < 0 || d.Workers < 0 || d.Mean < gp.Network || d.Mean > gp.LinearGaussian ||
		!(d.Tolerance >= 0 && d.Tolerance < 1) || d.MaxSteps < 0 || d.Probes < 0 || d.Probes == 1
	if bad {
		panic("cg: invalid options of conjugate gradients")
	}
	d.Tolerance = orDefault(d.Tolerance, defaultTolerance)
	d.MaxSteps = orDefault(d.MaxSteps, 1000)
	d.Probes = orDefault(d.Probes, 16)
	d.MaxIter = orDefault(d.MaxIter, 100)
	if d.Progress == nil {
		d.Progress = func(string, int, int) {}
	}
	return d
}

func orDefault[T int | float64](v, d T) T {
	if v == 0 {
		return d
	}
	return v
}
