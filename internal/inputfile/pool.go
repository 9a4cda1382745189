package inputfile

import (
	"io"
	"io/fs"
	"slices"
	"sync"
)

// mostOpen bounds the files that a Pool keeps open.
const mostOpen = 8

// A Pool reads files of any fs.FS at any offset. It opens a file when it is read and keeps
// the last few open, so that there may be more files than a process can open. It is safe for
// concurrent use.
type Pool struct {
	open func(name string) (fs.File, error)

	mu   sync.Mutex
	kept []*handle // the most recently used last
}

// A handle is an open file with the offset of its next read.
type handle struct {
	name string
	file fs.File
	at   int64
}

// NewPool returns a pool of files that are opened by their names.
func NewPool(open func(name string) (fs.File, error)) *Pool { return &Pool{open: open} }

// A PoolFile is a file of a pool, which is opened when it is read.
type PoolFile struct {
	pool *Pool
	name string
}

var _ io.ReaderAt = (*PoolFile)(nil)

// File returns the file of a name, which need not exist until it is read.
func (p *Pool) File(name string) *PoolFile { return &PoolFile{p, name} }

// Stat describes the file.
func (f *PoolFile) Stat() (info fs.FileInfo, err error) {
	err = f.pool.with(f.name, func(h *handle) error {
		info, err = h.file.Stat()
		return err
	})
	return info, err
}

// ReadAt implements io.ReaderAt. A file that supports neither ReadAt nor Seek is read forward from
// its present offset, or opened again and read from its beginning.
func (f *PoolFile) ReadAt(b []byte, offset int64) (n int, err error) {
	err = f.pool.with(f.name, func(h *handle) error {
		if r, ok := h.file.(io.ReaderAt); ok {
			n, err = r.ReadAt(b, offset)
			return err
		}
		if err := h.move(f.pool, offset); err != nil {
			return err
		}
		n, err = io.ReadFull(h.file, b)
		h.at += int64(n)
		if err == io.ErrUnexpectedEOF {
			err = io.EOF
		}
		return err
	})
	return n, err
}

// with calls do with the open file of a name.
func (p *Pool) with(name string, do func(h *handle) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := slices.IndexFunc(p.kept, func(h *handle) bool { return h.name == name })
	if k >= 0 {
		h := p.kept[k]
		p.kept = append(slices.Delete(p.kept, k, k+1), h)
		return do(h)
	}
	if len(p.kept) == mostOpen {
		err := p.kept[0].file.Close()
		p.kept = slices.Delete(p.kept, 0, 1)
		if err != nil {
			return err
		}
	}
	file, err := p.open(name)
	if err != nil {
		return err
	}
	h := &handle{name: name, file: file}
	p.kept = append(p.kept, h)
	return do(h)
}

// move makes offset the offset of the next read.
func (h *handle) move(p *Pool, offset int64) error {
	if s, ok := h.file.(io.Seeker); ok && h.at != offset {
		at, err := s.Seek(offset, io.SeekStart)
		h.at = at
		return err
	}
	if offset < h.at {
		again, err := p.open(h.name)
		if err != nil {
			return err
		}
		if err := h.file.Close(); err != nil {
			return err
		}
		h.file, h.at = again, 0
	}
	n, err := io.CopyN(io.Discard, h.file, offset-h.at)
	h.at += n
	return err
}

// Close closes the open files. Files that are read later are opened again.
func (p *Pool) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var first error
	for _, h := range p.kept {
		if err := h.file.Close(); first == nil {
			first = err
		}
	}
	p.kept = nil
	return first
}
