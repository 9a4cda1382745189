package sparse

import (
	"cmp"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/internal/store"
	"github.com/funcgp/funcgp/linearize"
)

// Progress stages.
const (
	StageSelect   = "select"   // counts inducing examples chosen
	StageInducing = "inducing" // counts inducing examples whose rows of K_ZZ are formed
	StageData     = "data"     // counts training examples of a pass over the data
	StageDual     = "dual"     // counts training examples of the pass for α
	StagePrepare  = "prepare"  // counts test examples of Prepare
	StageTune     = "tune"     // counts prior precisions tried; total is 0, as it is not known
	StageNewton   = "newton"   // counts Newton steps of a refit; total is 0, as it is not known
)

// Options are those of every function in this package. nil means all defaults.
type Options struct {
	// Mean chooses the mean that PredictTo and JointTo return. After a Refit it
	// is always m + K_*Z A⁻¹ c.
	Mean gp.Mean
	// MaxIter bounds the Newton steps of a refit; 0 means 100.
	MaxIter int
	// Limits.Progress gets StageSelect and the stages after it.
	linearize.Limits
	// Checkpoint, if not nil, is called by Fit and Refit during a pass that sums
	// over the data and during the pass for α of a Nyström Fit: every
	// CheckpointEvery examples, at the end of the pass, and when ctx ends it. The
	// pass has done that many of total examples. save writes the state to a store,
	// and must be called before the function returns. An error of the function ends
	// the fit. No other function uses Checkpoint or Resume.
	//
	//	func(_, _ int, save func(w *store.Writer) error) error { return store.Write(path, kind, version, save) }
	Checkpoint func(done, total int, save func(w *store.Writer) error) error
	// CheckpointEvery is the number of examples between two checkpoints, rounded
	// up to whole chunks; 0 means 16 chunks, which are 32,768 outputs at most.
	CheckpointEvery int
	// Resume, if not nil, is the store of a checkpoint, from which Fit or Refit goes on.
	// It does not linearize again the examples that the pass had done. The result is the
	// same to the last bit as without the interruption. A checkpoint of other data,
	// inducing examples, prior or likelihood is a *store.Error.
	Resume *store.File
	// Targets, if not nil, are the targets of all training examples, which Load
	// compares with those of the saved posterior; see gp.Targets. For a subset of
	// data it compares the targets of the subset. No other function uses them.
	Targets *gp.Targets
}

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	bad := d.MaxIter < 0 || d.Memory < 0 || d.CheckpointEvery < 0 || d.Mean < gp.Network || d.Mean > gp.LinearGaussian
	if bad {
		panic("sparse: invalid options")
	}
	d.MaxIter = cmp.Or(d.MaxIter, 100)
	return d
}

// Bytes returns the memory in bytes that a posterior of n training examples
// takes with m inducing examples and c outputs. It counts:
//
//   - five matrices of 8·(M·C)² bytes: K_ZZ twice (it takes two matrices where it
//     is singular to working precision), the sums, their factor and what covariances are computed with;
//     with refit, the last three once more;
//   - the features of a chunk of data, in three matrices;
//   - the sites and vectors of the N examples.
//
// It does not count the Jacobians of the inducing examples and of a batch of
// data. A number too large for an int64 is returned as the largest int64.
func Bytes(m, n, c int, refit bool) int64 { return RowBytes(memory.MulInt(m, c), n, c, refit) }

// RowBytes is Bytes for a K_ZZ of that many rows: M·C, or the number of
// inducing pairs.
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

// checkMemory is gp.CheckMemory, where need is the memory that m inducing
// elements take.
func (z *Inducing) checkMemory(op string, maxMemory int64, need func(m int) int64) error {
	unit := gp.InducingExamples
	if z.Pairs() {
		unit = gp.InducingPairs
	}
	return gp.CheckMemory(op, unit, z.Len(), maxMemory, need)
}
