package inputfile

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Causes of an error of Folder.Open, in an *fs.PathError.
var (
	ErrOutside = errors.New("it is not inside the folder")
	ErrLink    = errors.New("it is a symbolic link")
	ErrNotFile = errors.New("it is no regular file")
)

// A Folder opens the regular files of a directory and of those below it. It opens no file outside
// of the directory and none through a symbolic link.
type Folder struct{ root *os.Root }

// OpenFolder opens a directory.
func OpenFolder(path string) (*Folder, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	return &Folder{root}, nil
}

// Open opens the file of a name relative to the folder, with slashes. The error is an
// *fs.PathError or the error of the context.
func (d *Folder) Open(ctx context.Context, name string) (*File, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	refuse := func(err error) error { return &fs.PathError{Op: "open", Path: name, Err: err} }
	local := filepath.FromSlash(name)
	parts := strings.FieldsFunc(local, func(r rune) bool { return r == filepath.Separator || r == '/' })
	for _, part := range parts {
		if part == ".." {
			return nil, refuse(ErrOutside)
		}
	}
	if !filepath.IsLocal(local) {
		return nil, refuse(ErrOutside)
	}
	var info fs.FileInfo
	for i := range parts {
		var err error
		if info, err = d.root.Lstat(filepath.Join(parts[:i+1]...)); err != nil {
			return nil, err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return nil, refuse(ErrLink)
		}
	}
	if info == nil || !info.Mode().IsRegular() {
		return nil, refuse(ErrNotFile)
	}
	// Without O_NONBLOCK, opening would hang if the file had become a pipe since.
	file, err := d.root.OpenFile(filepath.Join(parts...), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	opened, err := file.Stat()
	if err == nil && !os.SameFile(info, opened) {
		err = refuse(errors.New("it changed while it was opened"))
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return &File{ctx: ctx, file: file, size: opened.Size(), stop: func() bool { return true }}, nil
}

// Close closes the folder. Files opened from it stay open.
func (d *Folder) Close() error { return d.root.Close() }
