package funcgp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"strings"
	"time"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/kept"
	"github.com/funcgp/funcgp/internal/atomicfile"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/internal/saved"
	"github.com/funcgp/funcgp/internal/store"
	"github.com/funcgp/funcgp/sparse"
)

// checkpointPause is the least time between two checkpoints in the middle of a pass.
const checkpointPause = 5 * time.Second

// The file of a checkpoint.
const (
	checkpointKind    = "gpexplain checkpoint"
	checkpointVersion = 1
)

// checkCheckpoint refuses a file that is there and no checkpoint, or takes more than the memory that may be used.
func checkCheckpoint(path string, memory int64) error {
	file, err := readCheckpoint(path, memory)
	if file != nil {
		err = file.Close()
	}
	return err
}

// readCheckpoint opens a checkpoint, nil where there is none.
func readCheckpoint(path string, memory int64) (*store.File, error) {
	info, err := os.Stat(path)
	switch {
	case path == "" || errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, badCheckpoint(path, err)
	case !info.Mode().IsRegular():
		// It could not be replaced as a whole, and is deleted in the end.
		return nil, job.FullErrorf("{checkpoint=%s}: it is no regular file; name another file", path)
	case info.Size() > gp.MemoryBudget(memory):
		return nil, job.FullErrorf("{checkpoint=%s}: it is %s, more than {max-memory} allows; name another file, or raise {max-memory}", path, job.SizeText(info.Size()))
	}
	file, err := store.Open(path, checkpointKind, checkpointVersion)
	if err != nil {
		return nil, badCheckpoint(path, err)
	}
	if err := file.Check(); err != nil {
		return nil, badCheckpoint(path, errors.Join(err, file.Close()))
	}
	return file, nil
}

// badCheckpoint reports a checkpoint from which a fit cannot resume.
func badCheckpoint(path string, err error) error {
	var e *store.Error
	if errors.As(err, &e) {
		return job.FullErrorf("{checkpoint=%s}: %s; name another file, or remove it to start anew", path, e.Problem)
	}
	return job.FullErrorf("{checkpoint=%s}: %w; name another file, or remove it to start anew", path, job.CauseOf(err))
}

// useCheckpoint makes a fit with these options resume from the checkpoint and write its state there.
func (f *fit) useCheckpoint(o *sparse.Options) {
	path := f.asked.Checkpoint
	if path == "" {
		return
	}
	if o.Resume = f.resume; o.Resume != nil {
		var at struct{ Done int }
		if o.Resume.JSON("checkpoint.about", &at) == nil {
			f.con.Note("going on from %s: %d of %d training rows of a pass are done", path, at.Done, f.problem.Examples.Train.Len())
		}
	}
	last := time.Now()
	o.Checkpoint = func(done, total int, save func(w *store.Writer) error) error {
		if done < total && time.Since(last) < checkpointPause {
			return nil
		}
		last = time.Now()
		return store.Write(path, checkpointKind, checkpointVersion, save)
	}
}

// removeCheckpoint deletes the file of a checkpoint, if any, once the posterior is written. A link to the file stays.
func removeCheckpoint(path string) error {
	if path == "" {
		return nil
	}
	target, err := atomicfile.Target(path)
	if err == nil {
		err = os.Remove(target)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return option.Errorf("{checkpoint=%s}: the posterior is written, but this file cannot be deleted: %w; delete it yourself", path, job.CauseOf(err))
	}
	return nil
}

// A choice is the starting point of a refit of kept rows: the match, and which rows are kept. The checkpoint
// holds it beside the state of the refit.
type choice struct {
	Stated    float64 // precision from which the match was looked for
	Match     *gp.Match
	Within    float64 // Method.Within
	Seed      uint64  // FitOptions.Seed
	Threshold kept.Threshold
	Weights   int // of near: P, or 0 for none

	near []float64 // weights near the mode at the match
}

// readChoice returns the choice that the checkpoint holds, or nil if it holds none.
func (f *fit) readChoice() (*choice, error) {
	file := f.resume
	if file == nil || f.frozen || !file.Has("choice.about") {
		return nil, nil
	}
	c, r := new(choice), file.Reader("choice.")
	r.JSON("about", c)
	t := &c.Threshold
	switch {
	case r.Err() != nil:
	case c.Weights != 0 && c.Weights != len(f.theta), !(t.Strength >= 0 && t.PriorVariance >= 0), t.Of < 0 || t.Of > math.MaxInt32, t.Wanted < 0 || t.Wanted > math.MaxInt32,
		t.Representatives < 0 || t.Representatives > math.MaxInt32,
		c.Match != nil && !(c.Match.Factor > 0 && c.Match.Root > 0 && c.Match.End >= gp.MatchFound && c.Match.End <= gp.MatchNone):
		_ = r.Fail(saved.OtherFit, "is of another fit, or not possible")
	case c.Stated != f.precision:
		saved.Differs(r, fmt.Sprintf("the prior: δ = %.4g and not %.4g", c.Stated, f.precision))
	case c.Weights > 0:
		c.near = r.Floats("near", c.Weights)
	}
	if r.Err() != nil {
		return nil, badCheckpoint(f.asked.Checkpoint, r.Err())
	}
	return c, nil
}

// identity identifies the training rows, the network and the prior.
func (f *fit) identity() *saved.Identity {
	return &saved.Identity{Examples: f.source, Kernel: f.kernel, Remedy: saved.OtherFit}
}

// save adds the choice to a checkpoint.
func (c *choice) save(ctx context.Context, f *fit, w *store.Writer) error {
	c.Weights, c.Threshold.Ratio = len(c.near), min(c.Threshold.Ratio, math.MaxFloat64)
	w.JSON("choice.about", c)
	w.Floats("choice.near", c.near)
	return f.identity().Save(ctx, w, "choice.")
}

// useKeptCheckpoint makes a refit with these options resume from the checkpoint and write its state there,
// after the choice that the refit starts from.
func (f *fit) useKeptCheckpoint(ctx context.Context, o *kept.Options, c *choice) error {
	path := f.asked.Checkpoint
	write := func(save func(w *store.Writer) error) error {
		return store.Write(path, checkpointKind, checkpointVersion, func(w *store.Writer) error {
			if err := c.save(ctx, f, w); err != nil {
				return err
			}
			return save(w)
		})
	}
	o.Checkpoint = write
	if file := f.resume; file != nil && file.Has("checkpoint.about") {
		f.con.Note("going on from %s with the refit", path)
		o.Resume = file
		return nil
	}
	return write(func(*store.Writer) error { return nil })
}

// saveThreshold writes the choice to the checkpoint, beside the state of the refit that is there.
func (f *fit) saveThreshold(ctx context.Context, c *choice) error {
	path := f.asked.Checkpoint
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
