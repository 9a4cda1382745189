package sparse

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/funcgp/funcgp/internal/saved"
	"github.com/funcgp/funcgp/internal/sites"
	"github.com/funcgp/funcgp/internal/store"
	"github.com/funcgp/funcgp/linearize"
)

// checkpointVersion is the version of the sections of a checkpoint.
const checkpointVersion = 2

// A checkpoint is the state of Fit or Refit between two chunks of data, and a JSON section of its store. It contains no
// training inputs. A fit that resumes from it does not linearize again the examples that the pass has done. It computes
// the kernel of the inducing examples again, and a refit also its sites, from the function values in the checkpoint.
type checkpoint struct {
	Done int      // examples that the pass has done
	Dual bool     // the pass computes α of a Nyström fit, and the sums are complete
	Kind passKind // kind of the pass of a refit
	Step int      // Newton steps of a refit that were finished

	sums          *Sums       // sums of the pass
	pseudo, alpha []float64   // b and α of the examples done, in the pass for α
	newton        *refitState // state of a refit; else nil
}

// fields returns the numbers that are saved beside the sums. n is the number of outputs of all examples.
func (c *checkpoint) fields(n int, o sumsSpec) []saved.Field {
	switch {
	case c.newton != nil:
		return c.newton.fields(c.Kind, n, o)
	case c.Dual:
		return []saved.Field{saved.Floats("b", &c.pseudo, c.Done, o.c), saved.Floats("alpha", &c.alpha, c.Done, o.c)}
	}
	return nil
}

// possible tells whether a fit to n examples can have this state, before its numbers are read.
func (c *checkpoint) possible(n int, refit bool, o sumsSpec) bool {
	return 0 < c.Done && c.Done <= n && (c.Done == n || c.Done%linearize.Tile(o.c) == 0) && !(c.Dual && refit) &&
		atTheta <= c.Kind && c.Kind <= atPoint && c.Step >= 0 && (refit || c.Kind == atTheta && c.Step == 0)
}

// consistent tells whether the sums are those of the examples done.
func (c *checkpoint) consistent(n int, o sumsSpec) bool {
	switch {
	case c.Dual:
		return c.sums.n == n
	case c.Kind == stepping:
		// A step adds no sums after an example without finite sites.
		return c.sums.n <= c.Done && c.newton.sums.n == n && c.newton.sums.spec.differs(o) == ""
	}
	return c.sums.n == c.Done
}

// A mark identifies numbers of a fit by their checksum.
type mark struct {
	what   string
	values []float64
}

// marksOf are the marks of sites.
func marksOf(s sites.Arrays) []mark {
	return []mark{{"the function values of the sites", s.F}, {"the residuals of the sites", s.R}, {"the Λ of the sites", s.Lambda}}
}

// A checksum of a vector is its sum with fixed random weights. Checksums are equal
// but for rounding, which may differ between processors, relative to the scale Σ|v|.
type checksum struct {
	sum, scale float64
}

// checksumRounding is the difference of two checksums, relative to their scale, that
// rounding may cause. One changed label among 10⁷ causes more.
const checksumRounding = 1e-9

func checksumOf(v []float64) checksum {
	var m checksum
	weights := rand.NewPCG(1, 1)
	for _, x := range v {
		m.sum += float64(int64(weights.Uint64())) * 0x1p-63 * x
		m.scale += math.Abs(x)
	}
	return m
}

func (m checksum) same(o checksum) bool {
	return math.Abs(m.sum-o.sum) <= checksumRounding*math.Max(m.scale, o.scale)
}

// A checkpointer calls Options.Checkpoint with the state of passes over the data.
type checkpointer struct {
	call  func(done, total int, save func(w *store.Writer) error) error
	every int // examples
	file  *store.File

	fit   *saved.Fit
	marks []float64   // checksums
	from  *checkpoint // the state in file; nil where the fit begins
}

// defaultCheckpointChunks is the default of Options.CheckpointEvery in chunks.
const defaultCheckpointChunks = 16

func newCheckpointer(o *Options, c int) checkpointer {
	s := checkpointer{call: o.Checkpoint, every: o.CheckpointEvery, file: o.Resume}
	if s.every == 0 {
		s.every = defaultCheckpointChunks * linearize.Tile(c)
	}
	return s
}

// active tells whether checkpoints are written or read.
func (s *checkpointer) active() bool { return s.call != nil || s.file != nil }

// begin identifies the fit, and reads the state that it goes on from. fit must not be nil.
func (s *checkpointer) begin(ctx context.Context, o sumsSpec, fit *saved.Fit, refit bool, marks ...mark) error {
	s.fit = fit
	for _, m := range marks {
		c := checksumOf(m.values)
		s.marks = append(s.marks, c.sum, c.scale)
	}
	if s.file == nil {
		return nil
	}
	c, r := new(checkpoint), s.file.Reader("checkpoint.")
	fit.Check(r)
	if c.sums = LoadSums(r, "sums"); r.Err() == nil {
		if what := c.sums.spec.differs(o); what != "" {
			saved.Differs(r, strings.TrimPrefix(what, "their "))
		}
	}
	fit.Identity.Check(ctx, r, "")
	if r.JSON("about", c); r.Err() == nil && !c.possible(fit.N, refit, o) {
		return r.Fail(saved.OtherFit, "holds an impossible state")
	}
	if refit {
		c.newton = new(refitState)
		if c.Kind == stepping {
			c.newton.sums = LoadSums(r, "before.sums")
		}
	}
	was := r.Floats("checksums", len(s.marks))
	if !saved.Load(r, c.fields(fit.N*fit.C, o)) {
		return r.Err()
	}
	if !c.consistent(fit.N, o) {
		return r.Fail(saved.OtherFit, "holds an impossible state")
	}
	for i, m := range marks {
		if !(checksum{was[2*i], was[2*i+1]}).same(checksum{s.marks[2*i], s.marks[2*i+1]}) {
			saved.Differs(r, m.what)
		}
	}
	s.from = c
	return r.Err()
}

// another returns the error for a checkpoint of another fit.
func (s *checkpointer) another(what string) error {
	r := s.file.Reader("")
	saved.Differs(r, what)
	return r.Err()
}

// write calls Options.Checkpoint with c. Then it empties c, because the fit changes the numbers that c points to.
func (s *checkpointer) write(c *checkpoint) error {
	if c == nil {
		return nil
	}
	defer func() { *c = checkpoint{} }()
	return s.call(c.Done, s.fit.N, func(w *store.Writer) error {
		if c.sums == nil {
			return errors.New("sparse: a checkpoint was saved after Options.Checkpoint had returned")
		}
		s.fit.Save(w, "checkpoint.")
		w.JSON("checkpoint.about", c)
		w.Floats("checkpoint.checksums", s.marks)
		c.sums.Save(w, "checkpoint.sums")
		if c.newton != nil && c.Kind == stepping {
			c.newton.sums.Save(w, "checkpoint.before.sums")
		}
		saved.Save(w, "checkpoint.", c.fields(0, c.sums.spec))
		return nil
	})
}

// uninterrupted returns the context for work that changes sums in place. With
// checkpoints this work must not stop halfway, so that context has no deadline.
func (s *checkpointer) uninterrupted(ctx context.Context) context.Context {
	if s.call != nil {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

// eachChunk is basis.eachChunk for the examples from first on, which must begin a
// chunk. It writes checkpoints. state returns the checkpoint after the examples
// before done, or nil where a fit cannot go on from there.
func (s *checkpointer) eachChunk(ctx context.Context, b *basis, x linearize.Source, o *Options, stage string, first int, do func(p chunk) error, state func(done int) *checkpoint) error {
	n := x.Len()
	if first == n {
		return nil
	}
	shifted := *o
	shifted.Progress = func(stage string, done, total int) { o.Show(stage, first+done, first+total) }
	done, saved := first, first
	err := b.eachChunk(ctx, linearize.From(x, first), &shifted, stage, func(p chunk) error {
		p.first += first
		if err := do(p); err != nil {
			return err
		}
		done += p.x.Len()
		if s.call == nil || done < n && done-saved < s.every {
			return nil
		}
		saved = done
		return s.write(state(done))
	})
	if ctx.Err() == nil || !errors.Is(err, ctx.Err()) || s.call == nil || done == saved {
		return err
	}
	if last := s.write(state(done)); last != nil {
		return errors.Join(err, last)
	}
	return err
}
