package npy

import (
	"errors"
	"fmt"
	"io"
)

// Rows reads ranges of rows of an array of numbers in a file, so that the file may be larger than
// memory. A row is what one value of the first index selects.
type Rows struct {
	Type  string // as in Array
	Shape []int  // has at least one index

	file  io.ReaderAt
	start int64 // offset of the elements in the file
	e     *element
	order []int // for an array in Fortran order, the position in the file of each element of a row; else nil
}

// OpenRows reads the header of a .npy file of the given size in bytes. Arrays of text, single
// values, and files with too few or too many bytes are errors.
func OpenRows(file io.ReaderAt, size int64) (*Rows, error) {
	r := io.NewSectionReader(file, 0, size)
	h, n, e, err := readStart(r)
	if err != nil {
		return nil, err
	}
	a := &Rows{Type: h.descr, Shape: h.shape, file: file, e: e}
	switch {
	case a.e.text != nil:
		return nil, errors.New("its elements are text; save numbers")
	case len(h.shape) == 0:
		return nil, errors.New("it is a single value; save an array with rows")
	}
	a.start, _ = r.Seek(0, io.SeekCurrent) // Seek of a SectionReader to its position cannot fail
	switch there := size - a.start; {
	case there < int64(n)*int64(a.e.size):
		return nil, fmt.Errorf("it ends after %d of %d elements", there/int64(a.e.size), n)
	case there > int64(n)*int64(a.e.size):
		return nil, errors.New("there is more after the array")
	}
	if a.Shape[0] == 0 || n == 0 {
		return nil, fmt.Errorf("its shape %v has no elements", a.Shape)
	}
	if h.fortran && len(h.shape) > 1 {
		a.order = make([]int, a.Dim())
		for i := range a.order {
			a.order[i] = i
		}
		a.order = rowMajor(a.order, a.Shape[1:])
	}
	return a, nil
}

// Len returns the number of rows.
func (a *Rows) Len() int { return a.Shape[0] }

// Dim returns the number of elements of a row.
func (a *Rows) Dim() int {
	d := 1
	for _, n := range a.Shape[1:] {
		d *= n
	}
	return d
}

// IsBytes reports whether the elements are of the type uint8.
func (a *Rows) IsBytes() bool { return a.e.bytes }

// ReadRows fills dst, whose length is a multiple of Dim, with the rows from lo on, which must
// exist.
func (a *Rows) ReadRows(dst []float64, lo int) error {
	d := a.Dim()
	n := len(dst) / d
	if len(dst)%d != 0 || lo < 0 || lo > a.Len()-n {
		panic("npy: rows out of range")
	}
	if a.order == nil {
		return a.run(lo*d, dst, 1)
	}
	for j, at := range a.order {
		if err := a.run(at*a.Len()+lo, dst[min(j, len(dst)):], d); err != nil {
			return err
		}
	}
	return nil
}

// run reads consecutive elements, from element first on, into every step-th element of dst.
func (a *Rows) run(first int, dst []float64, step int) error {
	n := (len(dst) + step - 1) / step
	size := a.e.size
	buf := make([]byte, min(n, max(chunk/size, 1))*size)
	for done := 0; done < n; {
		p := buf[:min(len(buf)/size, n-done)*size]
		if k, err := a.file.ReadAt(p, a.start+int64(first+done)*int64(size)); k < len(p) {
			if err == nil || errors.Is(err, io.EOF) {
				return errors.New("it has become shorter since it was opened")
			}
			return err
		}
		for ; len(p) > 0; p = p[size:] {
			if a.e.bytes {
				dst[done*step] = float64(p[0])
			} else if v, err := a.e.float(p[:size]); err == nil {
				dst[done*step] = v
			} else {
				return fmt.Errorf("element %d: %w", first+done, err)
			}
			done++
		}
	}
	return nil
}
