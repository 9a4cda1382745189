package inference

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/funcgp/funcgp/internal/atomicfile"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/problem"
	"github.com/funcgp/funcgp/sparse"
	"github.com/funcgp/funcgp/store"
)

// checkpointPause is the least time between two checkpoints in the middle of
// a pass.
const checkpointPause = 5 * time.Second

// The files of checkpoints of refits by the method kept.
const (
	checkpointKind    = "gpexplain checkpoint"
	checkpointVersion = 1
)

// ReadCheckpoint reads the file of Checkpoint where it exists, so that what is no
// checkpoint of the method is found before the long work. budget bounds the size of the
// file.
func (o *Options) ReadCheckpoint(c *job.Job, method string, budget int64) error {
	path := o.Checkpoint
	if path == "" {
		return nil
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return badCheckpoint(path, err)
	case !info.Mode().IsRegular():
		// It could not be replaced as a whole, and is deleted in the end.
		return job.FullErrorf("--checkpoint %s: it is no regular file; name another file", path)
	case info.Size() > budget:
		return job.FullErrorf("--checkpoint %s: it is %s, more than --max-memory allows; name another file, or raise --max-memory", path, problem.SizeText(info.Size()))
	}
	if !problem.IsSparse(method) { // kept, or exact with --within
		if o.ResumeKept, err = store.Open(path, checkpointKind, checkpointVersion); err != nil {
			return badCheckpoint(path, err)
		}
		c.CloseLater(o.ResumeKept.Close)
		return nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return badCheckpoint(path, err)
	}
	o.Resume = new(sparse.Checkpoint)
	if err := o.Resume.UnmarshalBinary(data); err != nil {
		return badCheckpoint(path, err)
	}
	return nil
}

// badCheckpoint reports a file that cannot be gone on from.
func badCheckpoint(path string, err error) error {
	var e *store.Error
	if errors.As(err, &e) {
		return job.FullErrorf("--checkpoint %s: %s; name another file, or remove it to start anew", path, e.Problem)
	}
	return job.FullErrorf("--checkpoint %s: %w; name another file, or remove it to start anew", path, job.CauseOf(err))
}

// useCheckpoint makes a fit with these options go on from --checkpoint and
// write there.
func (f *fit) useCheckpoint(o *sparse.Options) {
	path := f.options.Checkpoint
	if path == "" {
		return
	}
	if o.Resume = f.options.Resume; o.Resume != nil {
		done, total := o.Resume.Examples()
		f.con.Note("going on from %s: %d of %d training rows of a pass are done", path, done, total)
	}
	last := time.Now()
	o.Checkpoint = func(c *sparse.Checkpoint) error {
		if done, total := c.Examples(); done < total && time.Since(last) < checkpointPause {
			return nil
		}
		last = time.Now()
		return atomicfile.Write(path, func(w io.Writer) error {
			_, err := c.WriteTo(w)
			return err
		})
	}
}

// RemoveCheckpoint deletes the file of --checkpoint, if any, once the posterior
// is written. A link to the file stays.
func RemoveCheckpoint(path string) error {
	if path == "" {
		return nil
	}
	target, err := atomicfile.Target(path)
	if err == nil {
		err = os.Remove(target)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("--checkpoint %s: the posterior is written, but this file cannot be deleted: %w; delete it yourself", path, job.CauseOf(err))
	}
	return nil
}
