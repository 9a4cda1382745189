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

// openCheckpoint makes a fit with these options resume from --checkpoint and
// write there.
func (p *posterior) openCheckpoint(o *sparse.Options) error {
	path := p.way.checkpoint
	if path == "" {
		return nil
	}
	data, err := os.ReadFile(path)
	switch {
	case err == nil:
		c := new(sparse.Checkpoint)
		if err := c.UnmarshalBinary(data); err != nil {
			return fmt.Errorf("--checkpoint %s: %w; name another file, or remove it to start anew", path, err)
		}
		o.Resume = c
		done, total := c.Examples()
		p.note("going on from %s: %d of %d training rows of a pass are done", path, done, total)
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("--checkpoint: %w", err)
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
	return nil
}

// removeCheckpoint deletes the file once the posterior is written.
func (w *way) removeCheckpoint() error {
	if w.checkpoint == "" {
		return nil
	}
	if err := os.Remove(w.checkpoint); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("--checkpoint: %w", err)
	}
	return nil
}
