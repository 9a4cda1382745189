package sparse

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/funcgp/funcgp/internal/sites"
	"github.com/funcgp/funcgp/linearize"
)

// A Checkpoint is what Fit and Refit know between two chunks of data. Written
// down by Options.Checkpoint, it lets Options.Resume go on from there, without
// linearizing the examples that the pass has behind it. Nothing of the
// training inputs is in it.
//
// The kernel of the inducing examples is computed again, and so are the sites
// of a refit, from its function values.
type Checkpoint struct {
	binding
	next   int         // the first example that is not in the sums
	sums   *Sums       // of the pass
	newton *refitState // of a refit
}

// Refit tells whether the checkpoint is of Refit rather than of Fit.
func (c *Checkpoint) Refit() bool { return c.refit }

// Step returns how many Newton steps were finished; it is 0 for Fit.
func (c *Checkpoint) Step() int {
	if c.newton == nil {
		return 0
	}
	return c.newton.step
}

// Examples returns how many examples the pass over the data has behind it,
// and how many there are. Equal, the pass is finished.
func (c *Checkpoint) Examples() (done, total int) { return c.next, c.n }

// ResumeError reports that a checkpoint is not of the fit that was to go on
// from it.
type ResumeError struct {
	What string // in which they differ
}

func (e *ResumeError) Error() string {
	return "sparse: the checkpoint and this fit differ in " + e.What + "; resume with what it was made from, or start anew without it"
}

// A binding is what a checkpoint belongs to.
type binding struct {
	origin origin
	n      int
	refit  bool
	marks  [bindingMarks]mark // of m at the inducing examples; of the sites' f, r and Λ, or of a refit's targets
}

const bindingMarks = 4

// bind returns what a pass over n examples, known by marks, belongs to.
func (b *basis) bind(o origin, n int, refit bool, marks ...mark) binding {
	m := make([]float64, b.rows())
	b.k.MeanTo(m, b.z.Batch)
	to := binding{origin: o, n: n, refit: refit}
	copy(to.marks[:], append([]mark{markOf(m)}, marks...))
	return to
}

// check returns a *ResumeError where c does not belong to what is at hand.
func (c *Checkpoint) check(to binding) error {
	names := [bindingMarks]string{"their prior mean or network", "the function values of their sites", "the residuals of their sites", "the Λ of their sites"}
	if to.refit {
		names[1] = "their targets"
	}
	switch {
	case c.sums == nil:
		return errors.New("sparse: the checkpoint is empty; it must be written down before Options.Checkpoint returns")
	case c.refit != to.refit:
		return &ResumeError{What: "their kind: one is a refit, the other is not"}
	case c.n != to.n:
		return &ResumeError{What: fmt.Sprintf("their number of training examples, %d and %d", c.n, to.n)}
	}
	if what := c.origin.differs(to.origin); what != "" {
		return &ResumeError{What: what}
	}
	for i, m := range c.marks {
		if !m.same(to.marks[i]) {
			return &ResumeError{What: names[i]}
		}
	}
	return nil
}

// A mark tells numbers from others but for rounding, which another processor
// may change: a sum with fixed random weights, and one of sizes.
type mark struct {
	sum, scale float64
}

// markRounding is the difference of two marks, relative to their scale, that
// rounding may make. A label among 10⁷ makes more.
const markRounding = 1e-9

func markOf(v []float64) mark {
	var m mark
	weights := rand.NewPCG(1, 1)
	for _, x := range v {
		m.sum += float64(int64(weights.Uint64())) * 0x1p-63 * x
		m.scale += math.Abs(x)
	}
	return m
}

func (m mark) same(o mark) bool {
	return math.Abs(m.sum-o.sum) <= markRounding*math.Max(m.scale, o.scale)
}

// marksOf returns the marks of the function values, residuals and Λ.
func marksOf(s sites.Arrays) []mark { return []mark{markOf(s.F), markOf(s.R), markOf(s.Lambda)} }

// A saver gives the state of passes over the data to Options.Checkpoint.
type saver struct {
	call   func(*Checkpoint) error
	every  int // examples
	resume *Checkpoint
}

// defaultCheckpointChunks makes the default of Options.CheckpointEvery.
const defaultCheckpointChunks = 16

func newSaver(o *Options, c int) saver {
	s := saver{call: o.Checkpoint, every: o.CheckpointEvery, resume: o.Resume}
	if s.every == 0 {
		s.every = defaultCheckpointChunks * linearize.Tile(c)
	}
	return s
}

// active tells whether checkpoints are written or read.
func (s *saver) active() bool { return s.call != nil || s.resume != nil }

// give calls Options.Checkpoint. What c points to changes from then on, so
// that nothing is left in it.
func (s *saver) give(c *Checkpoint) error {
	if c == nil {
		return nil
	}
	err := s.call(c)
	*c = Checkpoint{}
	return err
}

// whole returns the context of work that changes sums in place. Where the sums
// of an interrupted pass are handed out, such work runs to its end.
func (s *saver) whole(ctx context.Context) context.Context {
	if s.call != nil {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

// eachPart passes over x from its example first on, which begins a chunk, as
// basis.eachPart does over all. state returns the checkpoint that has the
// examples before next behind it, or nil where there is nothing to go on from.
func (s *saver) eachPart(ctx context.Context, b *basis, x linearize.Source, o *Options, first int, do func(p part) error, state func(next int) *Checkpoint) error {
	n := x.Len()
	if first == n {
		return nil
	}
	shifted := *o
	shifted.Progress = func(stage string, done, total int) { o.Progress(stage, first+done, first+total) }
	done, saved := first, first
	err := b.eachPart(ctx, linearize.From(x, first), &shifted, StageData, func(p part) error {
		p.first += first
		if err := do(p); err != nil {
			return err
		}
		done += p.x.Len()
		if s.call == nil || done < n && done-saved < s.every {
			return nil
		}
		saved = done
		return s.give(state(done))
	})
	if ctx.Err() == nil || !errors.Is(err, ctx.Err()) || s.call == nil || done == saved {
		return err
	}
	if last := s.give(state(done)); last != nil {
		return errors.Join(err, last)
	}
	return err
}
