package evidence

import (
	"cmp"
	"math"
)

// Stages that Options.Progress is told of.
const (
	StageKernels  = "kernels"  // rows of the kernels of all groups
	StageEvidence = "evidence" // evaluations of the evidence; their number is not known: total 0
)

// Options are those of Evaluate, New and Maximize. nil means all defaults.
type Options struct {
	// PerGroup makes the factor of each group a variable. Otherwise all parameters
	// share one.
	PerGroup bool
	// Noise makes the noise variance a variable too. It needs a Gaussian likelihood.
	Noise bool
	// Starts is the number of points from which Maximize starts, the first of them the
	// given prior and noise, and the others within 3 of it in every log; 0 means 4. For
	// one factor without noise, Maximize instead tries a grid of step 1.5 over [−9, 9]
	// and refines every maximum that it shows.
	Starts int
	// Lowest and Highest bound the logs of all factors, at most ±300; both 0 means −12
	// and 12. A
	// variance that reaches Lowest is set to 0 where this raises the evidence.
	Lowest, Highest float64
	// MaxIter bounds the quasi-Newton steps of one start; 0 means 200.
	MaxIter int
	// Tolerance is the length of the last Newton step in the logs; 0 means 1e-9.
	Tolerance float64
	// MaxMemory is the number of bytes that may be taken; 0 means 80 % of what the
	// machine has free.
	MaxMemory int64
	Workers   int // goroutines; 0 means GOMAXPROCS
	// Progress, if not nil, is called as work is done.
	Progress func(stage string, done, total int)

	in int // the space that tests ask for
}

// widest bounds the range of the log factors.
const widest = 300

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	if d.Starts < 0 || d.MaxIter < 0 || d.MaxMemory < 0 || d.Workers < 0 || d.Tolerance < 0 || math.IsNaN(d.Tolerance) {
		panic("evidence: invalid options")
	}
	if d.Lowest == 0 && d.Highest == 0 {
		d.Lowest, d.Highest = -12, 12
	}
	if !(-widest <= d.Lowest && d.Lowest < 0 && 0 < d.Highest && d.Highest <= widest) {
		panic("evidence: the range of the log factors must hold 0 and lie within ±300")
	}
	d.MaxIter, d.Tolerance = cmp.Or(d.MaxIter, 200), cmp.Or(d.Tolerance, 1e-9)
	if d.Progress == nil {
		d.Progress = func(string, int, int) {}
	}
	return d
}
