// Package inputfile opens files so that reading them cannot hang the program:
// devices are refused, and a context ends the wait for data of a pipe.
//
//	f, err := inputfile.Open(ctx, "net.onnx")
//	defer f.Close()
//	data, err := io.ReadAll(io.LimitReader(f, most))
package inputfile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// ErrDevice is the cause of an Open that fails because the path names a device
// or a socket, whose data may never end.
var ErrDevice = errors.New("it is a device, and only files and pipes are read")

// A File is an open file or pipe. Its reads return the error of the context
// once the context is done.
type File struct {
	ctx  context.Context
	file *os.File
	size int64
	stop func() bool // ends the call that waits for the context
}

var (
	_ io.ReadSeekCloser = (*File)(nil)
	_ io.ReaderAt       = (*File)(nil)
)

// Standard reads standard input until it ends or the context is done. In the second case a
// goroutine keeps running until more data arrive.
func Standard(ctx context.Context) io.Reader {
	r, w := io.Pipe()
	stop := context.AfterFunc(ctx, func() { w.CloseWithError(ctx.Err()) })
	go func() {
		_, err := io.Copy(w, os.Stdin)
		stop()
		w.CloseWithError(err)
	}()
	return r
}

// Open opens a regular file or a named pipe. For a pipe it waits until someone opens the pipe to
// write or the context is done; in the second case a goroutine keeps running until a writer opens
// the pipe. The error is an *fs.PathError or the context's.
func Open(ctx context.Context, path string) (*File, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	f := &File{ctx: ctx, size: -1, stop: func() bool { return true }}
	switch mode := info.Mode(); {
	case mode.IsDir():
		return nil, &fs.PathError{Op: "open", Path: path, Err: syscall.EISDIR}
	case mode.IsRegular():
		f.size = info.Size()
		f.file, err = os.Open(path)
	case mode&fs.ModeNamedPipe != 0:
		f.file, err = openPipe(ctx, path)
	default:
		return nil, &fs.PathError{Op: "open", Path: path, Err: ErrDevice}
	}
	if err != nil {
		return nil, err
	}
	if f.size < 0 {
		// A deadline in the past ends a read that waits for data.
		f.stop = context.AfterFunc(ctx, func() { _ = f.file.SetReadDeadline(time.Unix(1, 0)) })
	}
	return f, nil
}

// openPipe opens a named pipe. The system call waits until someone opens the pipe
// to write.
func openPipe(ctx context.Context, path string) (*os.File, error) {
	type opened struct {
		file *os.File
		err  error
	}
	done := make(chan opened)
	go func() {
		file, err := os.Open(path)
		select {
		case done <- opened{file, err}:
		case <-ctx.Done():
			if err == nil {
				file.Close()
			}
		}
	}()
	select {
	case o := <-done:
		return o.file, o.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Size returns the size of a regular file in bytes, and -1 for a pipe.
func (f *File) Size() int64 { return f.size }

// Read implements io.Reader.
func (f *File) Read(p []byte) (int, error) {
	if err := f.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := f.file.Read(p)
	if err != nil && f.ctx.Err() != nil {
		return n, f.ctx.Err()
	}
	return n, err
}

// ReadAt implements io.ReaderAt for a regular file.
func (f *File) ReadAt(p []byte, offset int64) (int, error) {
	if err := f.ctx.Err(); err != nil {
		return 0, err
	}
	return f.file.ReadAt(p, offset)
}

// Seek implements io.Seeker.
func (f *File) Seek(offset int64, whence int) (int64, error) { return f.file.Seek(offset, whence) }

// Close closes the file.
func (f *File) Close() error {
	f.stop()
	return f.file.Close()
}

// Sum returns the SHA-256 checksum in hexadecimal of one or more regular files, one after another.
// It returns "" if one is not a regular file, since it could not be read a second time.
func Sum(ctx context.Context, paths ...string) (string, error) {
	h := sha256.New()
	for _, path := range paths {
		if info, err := os.Stat(path); path == "" || err == nil && !info.Mode().IsRegular() {
			return "", nil
		}
		f, err := Open(ctx, path)
		if err == nil {
			_, err = io.Copy(h, f)
			f.Close()
		}
		if err != nil {
			return "", fmt.Errorf("%s: its checksum: %w", path, err)
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
