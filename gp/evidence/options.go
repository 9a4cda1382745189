package evidence

import (
	"cmp"
	"math"

	"github.com/funcgp/funcgp/linearize"
)

// Stages in Options.Progress.
const (
	StageKernels  = "kernels"  // rows of the kernels of all groups
	StageEvidence = "evidence" // evaluations of the evidence; their number is unknown: total 0
)

// Options are options of Evaluate, New and Maximize. nil means all defaults.
type Options struct {
	// PerGroup makes the factor of each group a variable. Otherwise all parameters share one factor.
	PerGroup bool
	// Noise makes the noise variance a variable, too. It needs a Gaussian likelihood.
	Noise bool
	// Starts is the number of points at which Maximize starts; 0 means 4. The first is the given prior and noise,
	// and the others are within 3 of it in every logarithm. For one factor without noise, Starts = 0 instead means
	// a grid with step 1.5 over [−9, 9], from which every maximum that it shows is refined.
	Starts int
	// Lowest and Highest are the ends of the range of all log factors, within ±300. If both are 0 they are −12 and
	// 12. A variance that reaches Lowest is set to 0 where this raises the evidence.
	Lowest, Highest float64
	// MaxIter is the most quasi-Newton steps from one start; 0 means 200.
	MaxIter int
	// Tolerance is the length of the last Newton step in the logarithms; 0 means 1e-9.
	Tolerance float64
	linearize.Limits

	in int // the space to use, for tests
}

// widest bounds the ends of the range of the log factors.
const widest = 300

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	if d.Starts < 0 || d.MaxIter < 0 || d.Memory < 0 || d.Tolerance < 0 || math.IsNaN(d.Tolerance) {
		panic("evidence: invalid options")
	}
	if d.Lowest == 0 && d.Highest == 0 {
		d.Lowest, d.Highest = -12, 12
	}
	if !(-widest <= d.Lowest && d.Lowest < 0 && 0 < d.Highest && d.Highest <= widest) {
		panic("evidence: the range of the log factors must hold 0 and lie within ±300")
	}
	d.MaxIter, d.Tolerance = cmp.Or(d.MaxIter, 200), cmp.Or(d.Tolerance, 1e-9)
	return d
}
