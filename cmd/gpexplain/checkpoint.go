package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/funcgp/funcgp/internal/atomicfile"
	"github.com/funcgp/funcgp/sparse"
)

// checkpointPause is the least time between two checkpoints in the middle of
// a pass.
const checkpointPause = 5 * time.Second

// readCheckpoint reads the file of --checkpoint where it exists, so that what
// is no checkpoint is found before the long work. budget bounds its size.
func (w *way) readCheckpoint(budget int64) error {
	if w.checkpoint == "" {
		return nil
	}
	fail := func(err error) error {
		return placedf("--checkpoint %s: %w; name another file, or remove it to start anew", w.checkpoint, causeOf(err))
	}
	info, err := os.Stat(w.checkpoint)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fail(err)
	case !info.Mode().IsRegular():
		// It could not be replaced as a whole, and is deleted in the end.
		return placedf("--checkpoint %s: it is no regular file; name another file", w.checkpoint)
	case info.Size() > budget:
		return placedf("--checkpoint %s: it is %s, more than --max-memory allows; name another file, or raise --max-memory", w.checkpoint, sizeText(info.Size()))
	}
	data, err := os.ReadFile(w.checkpoint)
	if err != nil {
		return fail(err)
	}
	c := new(sparse.Checkpoint)
	if err := c.UnmarshalBinary(data); err != nil {
		return fail(err)
	}
	w.resume = c
	return nil
}

// useCheckpoint makes a fit with these options go on from --checkpoint and
// write there.
func (p *posterior) useCheckpoint(o *sparse.Options) {
	path := p.way.checkpoint
	if path == "" {
		return
	}
	if o.Resume = p.way.resume; o.Resume != nil {
		done, total := o.Resume.Examples()
		p.note("going on from %s: %d of %d training rows of a pass are done", path, done, total)
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

// removeCheckpoint deletes the file once the posterior is written. A link to
// the file stays.
func (w *way) removeCheckpoint() error {
	if w.checkpoint == "" {
		return nil
	}
	target, err := atomicfile.Target(w.checkpoint)
	if err == nil {
		err = os.Remove(target)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("--checkpoint %s: the posterior is written, but this file cannot be deleted: %w; delete it yourself", w.checkpoint, causeOf(err))
	}
	return nil
}
