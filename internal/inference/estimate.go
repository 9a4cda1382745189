package inference

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	fblas "github.com/funcgp/funcgp/internal/blas"
	"github.com/funcgp/funcgp/internal/console"
	"github.com/funcgp/funcgp/linearize"
)

const (
	estimateFrom    = 4000             // outputs of training rows from which an exact posterior may take long
	estimateOutputs = 512              // outputs of the block of the kernel that is timed
	estimateSize    = 512              // of the matrices that are multiplied for time
	longWork        = 20 * time.Second // what is announced
)

// Newton steps of a refit and precisions that --tune-prior tries, as they are on
// ordinary problems.
const (
	usualSteps  = 7
	usualTrials = 14
)

// exactWork is about how many multiplications and additions an exact posterior of n outputs
// takes after its kernel: a Cholesky factor, n³/3, for each Newton step, and the inverse for
// leave-one-out, 2n³/3.
func exactWork(n int, refit, leaveOneOut, tuned bool) float64 {
	cube := math.Pow(float64(n), 3)
	fit := cube / 3
	if refit {
		fit *= usualSteps
	}
	work := fit
	if tuned {
		work += usualTrials * (fit + 2*cube/3)
	}
	if leaveOneOut {
		work += 2 * cube / 3
	}
	return 2 * work
}

// announce says before an exact posterior that takes long how long it takes about, by
// the time of a small block of its kernel and of a small product.
func (f *fit) announce(batch *linearize.Batch) {
	n := batch.Len() * batch.Outputs()
	if n < estimateFrom || f.con.Quiet {
		return
	}
	rows := min(batch.Len(), max(1, estimateOutputs/batch.Outputs()))
	part := batch.Slice(0, rows)
	size := rows * batch.Outputs()
	block := mat.NewDense(size, size, nil)
	// The kernel is symmetric: half of its blocks are computed.
	kernel := fastest(func() { f.kernel.BlockTo(block, part, part) }) * math.Pow(float64(n)/float64(size), 2) / 2
	seconds := kernel + exactWork(n, !f.options.AtTheta, f.options.leaveOneOut, f.flags.tune != "")/multiplicationRate()
	if took := time.Duration(seconds * float64(time.Second)); took > longWork {
		f.con.Note("gpexplain: the exact posterior of %s outputs takes %s; %s is faster", console.Count(n), aboutTime(took), console.CommandLine(console.With(f.con.Args, "--method", "nystrom")))
	}
}

// multiplicationRate is how many multiplications and additions a second matrix products do.
func multiplicationRate() float64 {
	rng := rand.New(rand.NewPCG(1, 1))
	random := func() blas64.General {
		g := blas64.General{Rows: estimateSize, Cols: estimateSize, Stride: estimateSize, Data: make([]float64, estimateSize*estimateSize)}
		for i := range g.Data {
			g.Data[i] = rng.Float64()
		}
		return g
	}
	a, b, c := random(), random(), random()
	return 2 * estimateSize * estimateSize * estimateSize / fastest(func() { fblas.Gemm(blas.NoTrans, blas.NoTrans, 1, a, b, 0, c) })
}

// fastest is the least of the seconds that three calls take.
func fastest(do func()) float64 {
	best := math.Inf(1)
	for range 3 {
		began := time.Now()
		do()
		best = min(best, time.Since(began).Seconds())
	}
	return best
}

// aboutTime is a length of time for people.
func aboutTime(d time.Duration) string {
	unit := func(v float64, name string) string {
		n := int(math.Round(v))
		if n == 1 {
			return fmt.Sprintf("about 1 %s", name)
		}
		return fmt.Sprintf("about %d %ss", n, name)
	}
	switch {
	case d < 90*time.Second:
		return unit(math.Max(1, 10*math.Round(d.Seconds()/10)), "second")
	case d < 90*time.Minute:
		return unit(d.Minutes(), "minute")
	case d < 48*time.Hour:
		return unit(d.Hours(), "hour")
	}
	return unit(d.Hours()/24, "day")
}
