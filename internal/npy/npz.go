package npy

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Archive is a .npz file, which holds several named arrays.
type Archive struct {
	Names []string // sorted
	files map[string]*zip.File
}

// IsArchive reports whether a file begins as a .npz file does.
func IsArchive(head []byte) bool { return strings.HasPrefix(string(head), "PK\x03\x04") }

// maxArrays bounds the arrays of an archive.
const maxArrays = 10_000

// Open reads the table of contents of a .npz file of the given size in bytes.
func Open(r io.ReaderAt, size int64) (*Archive, error) {
	z, err := zip.NewReader(r, size)
	if err != nil {
		return nil, fmt.Errorf("it is no readable .npz file: %w", err)
	}
	if len(z.File) > maxArrays {
		return nil, fmt.Errorf("it holds %d files", len(z.File))
	}
	a := &Archive{files: map[string]*zip.File{}}
	for _, f := range z.File {
		name, ok := strings.CutSuffix(f.Name, ".npy")
		if !ok {
			continue
		}
		if a.files[name] != nil {
			return nil, fmt.Errorf("it holds two arrays %.60q", name)
		}
		a.files[name] = f
		a.Names = append(a.Names, name)
	}
	if len(a.Names) == 0 {
		return nil, errors.New("it holds no arrays")
	}
	slices.Sort(a.Names)
	return a, nil
}

// Has reports whether there is an array of this name.
func (a *Archive) Has(name string) bool { return a.files[name] != nil }

// Read reads the array with this name, which must exist, as the function Read does.
func (a *Archive) Read(name string, most int64) (out *Array, err error) {
	err = a.open(name, func(r io.Reader) error {
		out, err = Read(r, most)
		return err
	})
	return out, err
}

// Header returns the shape of the array with this name, which must exist, and the bytes of memory
// that Read takes for it.
func (a *Archive) Header(name string) (shape []int, bytes float64, err error) {
	err = a.open(name, func(r io.Reader) error {
		h, n, e, err := readStart(r)
		if err == nil {
			shape, bytes = h.shape, float64(n)*float64(e.memory)
		}
		return err
	})
	return shape, bytes, err
}

// open calls read with the file of an array. Errors name the array.
func (a *Archive) open(name string, read func(r io.Reader) error) error {
	f := a.files[name]
	if f == nil {
		panic("npy: no such array")
	}
	r, err := f.Open()
	if err == nil {
		defer r.Close()
		err = read(r)
	}
	if err != nil {
		return fmt.Errorf("array %.60q: %w", name, err)
	}
	return nil
}
