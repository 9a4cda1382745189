package inference

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/funcgp/funcgp/cmd/gpexplain/internal/console"
	"github.com/funcgp/funcgp/cmd/gpexplain/internal/problem"
	"github.com/funcgp/funcgp/internal/atomicfile"
	"github.com/funcgp/funcgp/sparse"
)

// checkpointPause is the least time between two checkpoints in the middle of
// a pass.
const checkpointPause = 5 * time.Second

// ReadCheckpoint reads the file of --checkpoint where it exists, so that what
// is no checkpoint is found before the long work. It is nil without a file, or
// a path. budget bounds the size of the file.
func ReadCheckpoint(path string, budget int64) (*sparse.Checkpoint, error) {
	if path == "" {
		return nil, nil
	}
	fail := func(err error) error {
		return console.FullErrorf("--checkpoint %s: %w; name another file, or remove it to start anew", path, console.CauseOf(err))
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fail(err)
	case !info.Mode().IsRegular():
		// It could not be replaced as a whole, and is deleted in the end.
		return nil, console.FullErrorf("--checkpoint %s: it is no regular file; name another file", path)
	case info.Size() > budget:
		return nil, console.FullErrorf("--checkpoint %s: it is %s, more than --max-memory allows; name another file, or raise --max-memory", path, problem.SizeText(info.Size()))
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fail(err)
	}
	c := new(sparse.Checkpoint)
	if err := c.UnmarshalBinary(data); err != nil {
		return nil, fail(err)
	}
	return c, nil
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
		return fmt.Errorf("--checkpoint %s: the posterior is written, but this file cannot be deleted: %w; delete it yourself", path, console.CauseOf(err))
	}
	return nil
}
