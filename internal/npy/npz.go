package npy

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Archive is a .npz file: several arrays with names.
type Archive struct {
	Names []string // sorted
	files map[string]*zip.File
}

// IsArchive reports whether the first bytes of a file are those of a .npz file.
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

// Read reads the array of a name, which must be there: see the function Read.
func (a *Archive) Read(name string, most int64) (*Array, error) {
	f := a.files[name]
	if f == nil {
		panic("npy: no such array")
	}
	r, err := f.Open()
	if err != nil {
		return nil, fmt.Errorf("array %.60q: %w", name, err)
	}
	defer r.Close()
	out, err := Read(r, most)
	if err != nil {
		return nil, fmt.Errorf("array %.60q: %w", name, err)
	}
	return out, nil
}
