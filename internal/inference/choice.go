package inference

import (
	"context"
	"errors"
	"math"
	"strings"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/kept"
	"github.com/funcgp/funcgp/internal/saved"
	"github.com/funcgp/funcgp/store"
)

// A choice is what a refit of kept rows starts from, and what its checkpoint holds beside the state of
// the refit: the match, and which rows are kept.
type choice struct {
	Stated    float64 // precision from which the match was looked for
	Match     *gp.Match
	Within    float64 // --within
	Seed      uint64  // --seed
	Threshold kept.Threshold
	Weights   int // of near: P, or 0 for none

	near []float64 // weights near the mode at the match
}

// otherFit is what to do with a checkpoint that does not fit.
const otherFit = "resume with the data and options that it was made from, or start again without it"

// readChoice returns the choice of --checkpoint, or nil where it has none.
func (f *fit) readChoice() (*choice, error) {
	file := f.options.ResumeKept
	if file == nil || f.frozen || !file.Has("choice.about") {
		return nil, nil
	}
	c, r := new(choice), file.Reader("choice.")
	r.JSON("about", c)
	t := &c.Threshold
	switch {
	case r.Err() != nil:
	case c.Weights != 0 && c.Weights != len(f.theta), !(t.Strength >= 0 && t.PriorVariance >= 0), t.Of < 0 || t.Of > math.MaxInt32, t.Wanted < 0 || t.Wanted > math.MaxInt32,
		c.Match != nil && !(c.Match.Factor > 0 && c.Match.Root > 0 && c.Match.End >= gp.MatchFound && c.Match.End <= gp.MatchNone):
		_ = r.Fail(otherFit, "it is of another fit, or not possible")
	case c.Stated != f.precision:
		_ = r.Fail(otherFit, "the prior is another: δ = %.4g and not %.4g", c.Stated, f.precision)
	case c.Weights > 0:
		c.near = r.Floats("near", c.Weights)
	}
	if r.Err() != nil {
		return nil, badCheckpoint(f.options.Checkpoint, r.Err())
	}
	return c, nil
}

// checkChoice refuses a choice of other training rows, another network or another prior than f has now.
func (f *fit) checkChoice(ctx context.Context) error {
	r := f.options.ResumeKept.Reader("choice.")
	f.identity().Check(ctx, r, "")
	if e := (*store.Error)(nil); errors.As(r.Err(), &e) {
		return badCheckpoint(f.options.Checkpoint, r.Err())
	}
	return r.Err()
}

// identity is that of the training rows with the network and the prior.
func (f *fit) identity() *saved.Identity {
	return &saved.Identity{Examples: f.source, Kernel: f.kernel, Remedy: otherFit}
}

// save adds the choice to a checkpoint.
func (c *choice) save(ctx context.Context, f *fit, w *store.Writer) error {
	c.Weights, c.Threshold.Ratio = len(c.near), min(c.Threshold.Ratio, math.MaxFloat64)
	w.JSON("choice.about", c)
	w.Floats("choice.near", c.near)
	return f.identity().Save(ctx, w, "choice.")
}

// useKeptCheckpoint makes a refit with these options go on from --checkpoint and write there, behind the
// choice that it starts from.
func (f *fit) useKeptCheckpoint(ctx context.Context, o *kept.Options, c *choice) error {
	path := f.options.Checkpoint
	write := func(save func(w *store.Writer) error) error {
		return store.Write(path, checkpointKind, checkpointVersion, func(w *store.Writer) error {
			if err := c.save(ctx, f, w); err != nil {
				return err
			}
			return save(w)
		})
	}
	o.Checkpoint = write
	if file := f.options.ResumeKept; file != nil && file.Has("checkpoint.about") {
		f.con.Note("going on from %s with the refit", path)
		o.Resume = file
		return nil
	}
	return write(func(*store.Writer) error { return nil })
}

// saveThreshold writes the choice to the checkpoint, beside the state of the refit that is there.
func (f *fit) saveThreshold(ctx context.Context, c *choice) error {
	path := f.options.Checkpoint
	was, err := store.Open(path, checkpointKind, checkpointVersion)
	if err != nil {
		return badCheckpoint(path, err)
	}
	defer was.Close()
	return store.Write(path, checkpointKind, checkpointVersion, func(w *store.Writer) error {
		for _, name := range was.Sections() {
			if !strings.HasPrefix(name, "checkpoint.") {
				continue
			}
			data, err := was.Bytes(name)
			if err != nil {
				return err
			}
			w.Bytes(name, data)
		}
		return c.save(ctx, f, w)
	})
}
