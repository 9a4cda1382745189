package variational

import (
	"context"
	"fmt"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"
)

// Stages that RunOptions.Progress and MeanFieldOptions.Progress are told of.
const (
	StageNatural   = "natural gradients" // updates of a Natural
	StageMeanField = "mean field"        // steps of Adam
)

// RunOptions are the options of Natural.Run. Nil and zero mean the defaults.
type RunOptions struct {
	Steps   int    // updates; 0 means 100
	Samples int    // draws of an update; 0 means 1
	Batch   int    // examples of an update; 0 means all
	Seed    uint64 // of the draws and of the order of the examples

	// Progress, if not nil, is called from one goroutine after each update.
	Progress func(stage string, done, total int)
}

func (o *RunOptions) withDefaults(n int) RunOptions {
	var d RunOptions
	if o != nil {
		d = *o
	}
	if d.Steps < 0 || d.Samples < 0 || d.Batch < 0 {
		panic("variational: invalid options")
	}
	if d.Steps == 0 {
		d.Steps = 100
	}
	if d.Samples == 0 {
		d.Samples = 1
	}
	if d.Batch == 0 || d.Batch > n {
		d.Batch = n
	}
	return d
}

// Run returns the Gaussian after the updates, from q on, for the training examples in the
// rows of x with the targets y. Batches are taken from a random order of the examples,
// a new one where less than a batch is left.
func (v *Natural) Run(ctx context.Context, q *Gaussian, x, y *mat.Dense, o *RunOptions) (*Gaussian, error) {
	n, _ := x.Dims()
	opt := o.withDefaults(n)
	rng := rand.New(rand.NewPCG(opt.Seed, 0x9e3779b97f4a7c15))
	samples := mat.NewDense(opt.Samples, len(q.mean), nil)
	batches := newBatches(x, y, opt.Batch, rng)
	for step := range opt.Steps {
		if v.Algorithm != OGGN {
			if err := q.SampleTo(ctx, samples, rng); err != nil {
				return nil, err
			}
		}
		bx, by := batches.next()
		next, err := v.Step(ctx, q, samples, bx, by, batches.weight())
		if err != nil {
			return nil, fmt.Errorf("variational: update %d: %w", step, err)
		}
		q = next
		if opt.Progress != nil {
			opt.Progress(StageNatural, step+1, opt.Steps)
		}
	}
	return q, nil
}

// batches gives examples in random order.
type batches struct {
	x, y, bx, by *mat.Dense
	order        []int
	rng          *rand.Rand
}

// newBatches gives all examples, in their own order, where size is their number.
func newBatches(x, y *mat.Dense, size int, rng *rand.Rand) *batches {
	n, d := x.Dims()
	if size == n {
		return &batches{x: x, y: y, bx: x, by: y, rng: rng}
	}
	_, targets := y.Dims()
	return &batches{x: x, y: y, bx: mat.NewDense(size, d, nil), by: mat.NewDense(size, targets, nil), rng: rng}
}

// weight is how many examples one of a batch stands for.
func (b *batches) weight() float64 {
	n, _ := b.x.Dims()
	size, _ := b.bx.Dims()
	return float64(n) / float64(size)
}

// next returns a batch, in memory that the next call uses again.
func (b *batches) next() (x, y *mat.Dense) {
	if b.bx == b.x {
		return b.x, b.y
	}
	size, _ := b.bx.Dims()
	if len(b.order) < size {
		n, _ := b.x.Dims()
		b.order = b.rng.Perm(n)
	}
	for i, row := range b.order[:size] {
		copy(b.bx.RawRowView(i), b.x.RawRowView(row))
		copy(b.by.RawRowView(i), b.y.RawRowView(row))
	}
	b.order = b.order[size:]
	return b.bx, b.by
}
