package store

import (
	"fmt"
	"math"
)

// A Reader reads sections that share a prefix, one after the other. It keeps its first error and returns nothing
// afterwards, so that a caller can read all it needs and then check Err once.
//
//	r := f.Reader("exact.")
//	b, lambda := r.Floats("b", n, c), r.Floats("lambda", n, c, c)
//	if r.Err() != nil {
//		return nil, r.Err()
//	}
type Reader struct {
	f      *File
	prefix string
	err    error
}

// Reader returns a Reader for the sections whose names start with prefix.
func (f *File) Reader(prefix string) *Reader { return &Reader{f: f, prefix: prefix} }

// Err returns the first error. It is an *Error unless Stop was given another.
func (r *Reader) Err() error { return r.err }

// Stop sets the Reader's error to err, which may be nil, unless there already is one.
func (r *Reader) Stop(err error) {
	if r.err == nil {
		r.err = err
	}
}

// Fail sets the Reader's error to an *Error with this problem, unless there already is one, and returns the
// Reader's error.
func (r *Reader) Fail(remedy, problem string, args ...any) error {
	r.Stop(&Error{File: r.f.path, Problem: fmt.Sprintf(problem, args...), Remedy: remedy})
	return r.err
}

// JSON decodes a section into v.
func (r *Reader) JSON(name string, v any) {
	if r.err == nil {
		r.err = r.f.JSON(r.prefix+name, v)
	}
}

// Has tells whether there is a section with this name.
func (r *Reader) Has(name string) bool { return r.f.Has(r.prefix + name) }

// Bytes returns a section, read-only and valid until the File is closed.
func (r *Reader) Bytes(name string) (b []byte) {
	if r.err == nil {
		b, r.err = r.f.Bytes(r.prefix + name)
	}
	return b
}

// Floats returns a section with as many numbers as the product of dims. The slice is read-only and valid until the
// File is closed. A section of another length and a negative dimension are errors.
func (r *Reader) Floats(name string, dims ...int) []float64 {
	if r.err != nil {
		return nil
	}
	v, err := r.f.Floats(r.prefix + name)
	if err != nil {
		r.err = err
		return nil
	}
	if n, ok := product(dims); !ok || n != len(v) {
		_ = r.Fail("write it again", "section %q has %d numbers, which is not the product of %v", r.prefix+name, len(v), dims)
		return nil
	}
	return v
}

// product returns the product of dims. ok is false where it overflows, and where a dimension is negative.
func product(dims []int) (int, bool) {
	n := 1
	for _, d := range dims {
		if d < 0 || d > 0 && n > math.MaxInt/d {
			return 0, false
		}
		n *= d
	}
	return n, true
}
