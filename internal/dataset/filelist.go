package dataset

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/klauspost/compress/gzip"

	"github.com/funcgp/funcgp/internal/inputfile"
)

// A storage is a file system: an fs.FS, or the operating system's files if fsys is nil.
type storage struct{ fsys fs.FS }

func (p storage) stat(name string) (fs.FileInfo, error) {
	if p.fsys != nil {
		return fs.Stat(p.fsys, name)
	}
	return os.Stat(name)
}

// open opens a regular file.
func (p storage) open(name string) (fs.File, error) {
	info, err := p.stat(name)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EISDIR}
	case !info.Mode().IsRegular():
		return nil, &fs.PathError{Op: "open", Path: name, Err: inputfile.ErrNotFile}
	case p.fsys != nil:
		return p.fsys.Open(name)
	}
	return os.Open(name)
}

// openPlain opens a file and decompresses it if it is gzipped.
func (p storage) openPlain(name string) (fs.File, error) {
	f, err := p.open(name)
	if err != nil {
		return nil, err
	}
	head := make([]byte, 2)
	n, _ := io.ReadFull(f, head) // a read error is returned by the reads below
	if err := f.Close(); err != nil {
		return nil, err
	}
	if f, err = p.open(name); err != nil || string(head[:n]) != "\x1f\x8b" {
		return f, err
	}
	z, err := gzip.NewReader(f)
	if err != nil {
		f.Close()
		return nil, err
	}
	return readFile{f, z}, nil
}

// openText opens a text file and reads it through plainText.
func (p storage) openText(name string) (fs.File, error) {
	f, err := p.open(name)
	if err != nil {
		return nil, err
	}
	text, changed, err := plainText(f)
	if e := (*Error)(nil); errors.As(err, &e) {
		e.File = name
	}
	if err == nil && changed {
		return readFile{f, text}, nil
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return nil, err
	}
	return p.open(name)
}

// A readFile is a file that is read through another reader.
type readFile struct {
	fs.File
	in io.Reader
}

// Read implements fs.File.
func (f readFile) Read(p []byte) (int, error) { return f.in.Read(p) }

// list returns the files that a name stands for: one file, the files of a comma-separated list in
// its order, or the files that match a pattern of path.Match in the order of their names. several
// is false if the name is that of one file.
func (p storage) list(name string) (files []string, several bool, err error) {
	fields := strings.Split(name, ",")
	for i := range fields {
		fields[i] = strings.TrimSpace(fields[i])
	}
	one := !strings.ContainsAny(name, "*?[") && (len(fields) == 1 || !slices.ContainsFunc(fields, func(f string) bool { return isTable(f) || isNumPyFile(f) }))
	if _, err := p.stat(name); err == nil || one {
		return []string{name}, false, nil
	}
	for _, field := range fields {
		if _, err := p.stat(field); err == nil || !strings.ContainsAny(field, "*?[") {
			files = append(files, field)
			continue
		}
		found, err := filepath.Glob(field)
		if p.fsys != nil {
			found, err = fs.Glob(p.fsys, field)
		}
		if err != nil {
			return nil, true, &Error{File: field, Problem: "is no pattern of file names", Err: err, Remedy: "write for example 'train-*.npy'"}
		}
		if len(found) == 0 {
			return nil, true, &Error{File: field, Problem: "no file has such a name", Remedy: "check the pattern and its folder"}
		}
		if err := complete(field, found); err != nil {
			return nil, true, err
		}
		files = append(files, found...)
	}
	for i, file := range files {
		if file == "" {
			return nil, true, &Error{File: name, Problem: "has an empty name between its commas", Remedy: "name each file"}
		}
		if slices.Contains(files[:i], file) {
			return nil, true, &Error{File: file, Problem: "is named twice", Remedy: "name each file once"}
		}
	}
	return files, true, nil
}

// numbered splits the name of a file at its last number, which may be followed by the number of
// files: x-00003-of-00008.npy is x-, 00003, 00008 and .npy.
var numbered = regexp.MustCompile(`^(.*?)([0-9]+)(?:-of-([0-9]+))?([^0-9]*)$`)

// complete returns an error if files numbered from 0 or 1 have a gap, or if the names state the
// number of files and the last ones are missing.
func complete(pattern string, files []string) error {
	first := numbered.FindStringSubmatch(files[0])
	if first == nil {
		return nil
	}
	there := map[int]bool{}
	least, most := math.MaxInt, 0
	for _, file := range files {
		own := numbered.FindStringSubmatch(file)
		if own == nil || own[1] != first[1] || own[3] != first[3] || own[4] != first[4] {
			return nil
		}
		k, err := strconv.Atoi(own[2])
		if err != nil || k > maxFiles {
			return nil
		}
		there[k], least, most = true, min(least, k), max(most, k)
	}
	if of, err := strconv.Atoi(first[3]); err == nil && of <= maxFiles {
		if least = 0; there[of] {
			least = 1
		}
		most = max(most, least+of-1)
	}
	if least > 1 {
		return nil
	}
	for k := least; k <= most; k++ {
		if there[k] {
			continue
		}
		width := 0
		if first[2][0] == '0' {
			width = len(first[2])
		}
		of := ""
		if first[3] != "" {
			of = "-of-" + first[3]
		}
		return &Error{File: fmt.Sprintf("%s%0*d%s%s", first[1], width, k, of, first[4]), Problem: fmt.Sprintf("is missing: the files of %s are numbered from %d to %d", pattern, least, most),
			Remedy: "put it there, or leave it out by naming the others with commas between them"}
	}
	return nil
}

// maxFiles is the largest number of a file up to which complete looks for a gap.
const maxFiles = 1 << 20

// FilesOf returns the files that a name of data stands for: one, or several for a pattern or a
// list. They need not exist.
func FilesOf(name string) []string {
	files, _, err := storage{}.list(name)
	if err != nil {
		return []string{name}
	}
	return files
}

// contextReader fails once its context is done.
type contextReader struct {
	ctx context.Context
	io.Reader
}

// Read implements io.Reader.
func (r contextReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}
