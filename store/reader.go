package store

import (
	"fmt"
	"math"
)

// A Reader reads the sections that share a prefix, one after the other. It keeps
// its first error and returns nothing afterwards, so a Load reads all it needs and
// then checks Err once.
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

// Reader returns a Reader of the sections whose names start with prefix.
func (f *File) Reader(prefix string) *Reader { return &Reader{f: f, prefix: prefix} }

// Err returns the first error. It is an *Error, unless it is one that Stop was
// given.
func (r *Reader) Err() error { return r.err }

// Stop makes err, which may be nil, the Reader's error unless it already has one.
func (r *Reader) Stop(err error) {
	if r.err == nil {
		r.err = err
	}
}

// Fail makes an *Error with this problem the Reader's error unless it already has
// one, and returns the Reader's error.
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

// Has reports whether there is a section of that name.
func (r *Reader) Has(name string) bool { return r.f.Has(r.prefix + name) }

// Floats returns a section of as many numbers as the product of dims, read-only
// and valid until the File is closed. A section of another length is an error, and
// so is a negative dimension.
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

// product returns the product of dims. It returns false where it overflows or a
// dimension is negative.
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
