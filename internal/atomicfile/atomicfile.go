// Package atomicfile writes a file completely or not at all.
//
//	err := atomicfile.Write("report.html", func(w io.Writer) error {
//		_, err := io.WriteString(w, page)
//		return err
//	})
//
// The content is written to a temporary file in the same directory, which
// replaces the old file once everything has reached the disk. On any failure the
// temporary file is removed and the old file stays as it was.
package atomicfile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// An Error says which file could not be written, why, and what helps.
type Error struct {
	Path string // as given to Write
	Err  error  // the cause, without the name of the temporary file
}

// Error implements error in one line.
func (e *Error) Error() string {
	msg := fmt.Sprintf("cannot write %s: %v", e.Path, e.Err)
	switch { // what the user can do
	case errors.Is(e.Err, fs.ErrNotExist):
		msg += "; create its directory first"
	case errors.Is(e.Err, fs.ErrPermission), errors.Is(e.Err, syscall.EROFS):
		msg += "; choose a place you may write to"
	case errors.Is(e.Err, syscall.ENOSPC), errors.Is(e.Err, syscall.EDQUOT):
		msg += "; free some space or choose another disk"
	case errors.Is(e.Err, syscall.EISDIR):
		msg += "; name a file in it"
	}
	return msg
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Write makes or replaces the file at path with what write writes to its
// argument. A new file gets mode 0666 less the umask, and an existing one keeps
// its mode. A symbolic link stays a link, and the file to which it leads is
// written, even if that does not exist yet. A device or a pipe is not replaced
// but written to directly; for any other file the argument of write is a Rewriter. The
// error is an *Error.
func Write(path string, write func(io.Writer) error) error {
	err := replace(path, write)
	if err == nil {
		return nil
	}
	// Strip the operation and the temporary name from a system error.
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		err = p.Err
	} else if l := (*os.LinkError)(nil); errors.As(err, &l) {
		err = l.Err
	}
	return &Error{Path: path, Err: err}
}

// replace is Write without the wrapping of the error.
func replace(path string, write func(io.Writer) error) error {
	mode := fs.FileMode(0)
	if info, err := os.Stat(path); err == nil {
		switch {
		case info.IsDir():
			return syscall.EISDIR
		case !info.Mode().IsRegular():
			// Write to what is not a regular file.
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			b := bufio.NewWriter(f)
			if err = write(b); err == nil {
				err = b.Flush()
			}
			return errors.Join(err, f.Close())
		}
		mode = info.Mode().Perm()
	}
	target, err := Target(path)
	if err != nil {
		return err
	}
	return swap(target, mode, write)
}

// mostLinks is how many symbolic links are followed, as many as Linux does.
const mostLinks = 40

// Target returns the file that Write makes or replaces for this path, which may
// be a symbolic link to it. The file need not exist.
func Target(path string) (string, error) {
	for range mostLinks {
		link, err := os.Readlink(path)
		if err != nil {
			return path, nil // not a link; any other error shows when the path is used
		}
		if !filepath.IsAbs(link) {
			// filepath.Join would resolve ".." by name, which is wrong after a link.
			dir, _ := filepath.Split(path)
			link = dir + link
		}
		path = link
	}
	return "", syscall.ELOOP
}

// A Rewriter writes a file of which an earlier part can be written again.
type Rewriter interface {
	io.Writer
	// Rewrite replaces the bytes from at on by b, all of which have been written.
	Rewrite(b []byte, at int64) error
}

var _ Rewriter = (*file)(nil)

// file is a Rewriter with a buffer.
type file struct {
	*bufio.Writer
	f *os.File
}

// Rewrite implements Rewriter.
func (w *file) Rewrite(b []byte, at int64) error {
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := w.f.WriteAt(b, at)
	return err
}

// swap fills a temporary file beside path and renames it. A mode of zero
// leaves the mode to the umask.
func swap(path string, mode fs.FileMode, write func(io.Writer) error) (err error) {
	f, err := temporary(path)
	if err != nil {
		return err
	}
	done := false
	defer func() { // also when write panics
		if !done {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	if mode != 0 {
		if err := f.Chmod(mode); err != nil {
			return err
		}
	}
	w := &file{bufio.NewWriter(f), f}
	if err := write(w); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	done = true
	return nil
}

// temporary creates a new file in the directory of path.
func temporary(path string) (*os.File, error) {
	dir, base := filepath.Split(path)
	if len(base) > 100 {
		base = base[:100] // room for the suffix within a name's limit
	}
	for tries := 0; ; tries++ {
		name := dir + "." + base + "." + strconv.FormatUint(rand.Uint64(), 36) + ".tmp"
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if !errors.Is(err, fs.ErrExist) || tries == 100 {
			return f, err
		}
	}
}
