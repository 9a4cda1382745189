package sparse

import (
	"fmt"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/linearize"
)

// Approximation is what is made of the part of K that the inducing examples
// do not explain, K − Q.
type Approximation int

const (
	// Nystrom is the projected process: all data, seen through the inducing
	// examples; the residual k − q of a test example is kept (E13).
	Nystrom Approximation = iota
	// FITC is Nystrom with the residual k − q of each training example as
	// noise of its own (E13).
	FITC
	// subsetOfData is the exact posterior given the inducing examples alone; the
	// other data do not enter. FitSubset and RefitSubset give it, no option does.
	subsetOfData
)

func (a Approximation) String() string {
	names := [...]string{"Nyström", "FITC", "subset of data"}
	if a < 0 || int(a) >= len(names) {
		return fmt.Sprintf("Approximation(%d)", int(a))
	}
	return names[a]
}

// Progress stages.
const (
	StageSelect   = "select"   // inducing examples chosen
	StageInducing = "inducing" // rows of K_ZZ
	StageData     = "data"     // training examples of a pass
	StageDual     = "dual"     // training examples of the pass for α
	StagePrepare  = "prepare"  // test examples of Prepare
	StageTune     = "tune"     // prior precisions tried; their number is not known: total 0
	StageNewton   = "newton"   // steps of a refit; their number is not known: total 0
)

// Options of everything in this package. nil means all defaults.
type Options struct {
	// Approximation is Nystrom or FITC. FitSubset and RefitSubset ignore it.
	Approximation Approximation
	// Mean is what PredictTo and JointTo return as the mean. A Refit always
	// has m + K_*Z A⁻¹ c.
	Mean gp.Mean
	// PrecisionByFraction makes FitSubset and RefitSubset multiply the prior
	// precision by M/N, as some other tools do to make up for the data left
	// out. The posterior is then none of the stated prior.
	PrecisionByFraction bool
	// MaxIter bounds the Newton steps of a refit; 0 means 100.
	MaxIter int
	// MaxMemory is the number of bytes that may be taken; 0 means 80 % of
	// what the machine has free (gp.MemoryBudget).
	MaxMemory int64
	// Workers bounds the goroutines; 0 means GOMAXPROCS. The kernel uses as many
	// as its own options say.
	Workers int
	// Progress, if not nil, is called as work is done, from one goroutine.
	Progress func(stage string, done, total int)
	// Checkpoint, if not nil, is given the state of Fit and Refit after each
	// pass that sums over the data, every CheckpointEvery examples of such a
	// pass, and once more where ctx ends one, after the chunk at hand is summed.
	// The state is empty once the call has returned: write it down. An error
	// ends the fit with it.
	// Nothing but Fit and Refit calls Checkpoint or resumes.
	Checkpoint func(c *Checkpoint) error
	// CheckpointEvery is a number of examples, of which whole chunks are
	// made; 0 means 16 chunks, which are 32,768 outputs at most.
	CheckpointEvery int
	// Resume, if not nil, is where Fit or Refit goes on: the result is the
	// same to the last bit as without the interruption. It must come from the
	// same data, inducing examples, prior, likelihood and approximation, else
	// there is a *ResumeError. It is not changed.
	Resume *Checkpoint
	// Targets, if not nil, are compared by Load with those of the saved
	// posterior; see gp.Targets. They are those of all
	// training examples, of which a subset of data takes its own. Nothing else uses them.
	Targets *gp.Targets
}

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	bad := d.MaxIter < 0 || d.MaxMemory < 0 || d.Workers < 0 || d.CheckpointEvery < 0 || d.Mean < gp.Network || d.Mean > gp.LinearGaussian ||
		d.Approximation < Nystrom || d.Approximation > FITC
	if bad {
		panic("sparse: invalid options")
	}
	if d.MaxIter == 0 {
		d.MaxIter = 100
	}
	if d.Progress == nil {
		d.Progress = func(string, int, int) {}
	}
	return d
}

// Bytes returns the memory that a posterior of n training examples takes with
// m inducing examples and c outputs: K_ZZ, which counts twice because it takes
// two matrices where it is singular to working precision, the sums, their
// factor and I − A'⁻¹, each 8·(M·C)² bytes, the last three once more while a
// refit compares two sums; the features of a chunk of data, in three matrices;
// and the sites and vectors of the N examples. The Jacobians
// of the inducing examples and of a batch of data are not in it. A number too
// large for an int64 is returned as the largest int64.
func Bytes(m, n, c int, refit bool) int64 { return RowBytes(memory.MulInt(m, c), n, c, refit) }

// RowBytes is Bytes for so many rows of K_ZZ: M·C, or the number of inducing
// (example, output) pairs.
func RowBytes(rows, n, c int, refit bool) int64 {
	mc, nc := int64(rows), memory.Mul(int64(n), int64(c))
	squares := int64(5)
	copies := int64(1)
	if refit {
		squares, copies = squares+3, copies+1
	}
	whole := memory.Mul(squares, memory.Mul(mc, mc))
	// Cross-kernel, φ, Rᵀφ.
	tile := memory.Mul(3, memory.Mul(memory.Mul(int64(min(n, linearize.Tile(c))), int64(c)), mc))
	// F, r, Λ and R; m, b, α and f.
	vectors := memory.Mul(nc, memory.Add(memory.Mul(copies, 2+2*int64(c)), 4))
	return memory.Mul(8, memory.Add(whole, memory.Add(tile, vectors)))
}

// checkMemory is gp.CheckMemory for the number of inducing elements.
func (z *Inducing) checkMemory(op string, maxMemory int64, need func(m int) int64) error {
	return gp.CheckMemory(op, unit(z.Pairs()), z.Len(), maxMemory, need)
}

// unit says what inducing elements are.
func unit(pairs bool) string {
	if pairs {
		return gp.InducingPairs
	}
	return gp.InducingExamples
}
