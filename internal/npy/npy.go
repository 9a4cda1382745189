// Package npy reads arrays that NumPy saved: .npy files, and .npz files with
// several of them.
//
//	a, err := npy.Read(file, 1<<30)
//	if err != nil { … }
//	a.Shape   // [150 4]
//	a.Floats  // 600 numbers, row-major
//
// Headers are not trusted: memory is taken only as the data arrive. Arrays of
// Python objects, which are pickled, are refused.
//
// The format is numpy.lib.format, versions 1 to 3.
package npy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// Array is an array of numbers or text, row-major whatever the order in the file.
// Exactly one of Floats, Bytes and Text is not nil.
type Array struct {
	Type   string    // NumPy's name of the element type, such as <f4
	Shape  []int     // empty for a single value
	Floats []float64 // numbers and truth values, exactly
	Bytes  []byte    // numbers of the type uint8
	Text   []string  // strings
}

// Len returns the number of elements, the product of Shape.
func (a *Array) Len() int { return max(len(a.Floats), len(a.Bytes), len(a.Text)) }

// Float returns element i, a number or a truth value.
func (a *Array) Float(i int) float64 {
	if a.Bytes != nil {
		return float64(a.Bytes[i])
	}
	return a.Floats[i]
}

// Numbers returns all elements of an array of numbers. The result shares memory with the array unless the elements
// are of type uint8.
func (a *Array) Numbers() []float64 {
	if a.Bytes == nil {
		return a.Floats
	}
	v := make([]float64, len(a.Bytes))
	for i, b := range a.Bytes {
		v[i] = float64(b)
	}
	return v
}

// magic is the beginning of every .npy file.
const magic = "\x93NUMPY"

// Is reports whether a file begins as a .npy file does.
func Is(head []byte) bool { return strings.HasPrefix(string(head), magic) }

// maxHeader bounds the bytes of the header. NumPy itself refuses more than 10,000.
const maxHeader = 1 << 20

// Read reads one array, which may take at most most bytes of memory; 0 is no limit. The error says
// what is wrong with the file, or comes from the reader.
func Read(r io.Reader, most int64) (*Array, error) {
	h, n, e, err := readStart(r)
	if err != nil {
		return nil, err
	}
	a := &Array{Type: h.descr, Shape: h.shape}
	if need := float64(n) * float64(e.memory); most > 0 && need > float64(most) {
		return nil, fmt.Errorf("an array of shape %v takes %.0f bytes of memory, of which %d may be used", h.shape, need, most)
	}
	if err := e.read(a, r, n); err != nil {
		return nil, err
	}
	switch k, err := io.ReadFull(r, make([]byte, 1)); {
	case k > 0:
		return nil, errors.New("there is more after the array")
	case err != io.EOF:
		return nil, err
	}
	if h.fortran && len(h.shape) > 1 {
		a.Floats, a.Bytes, a.Text = rowMajor(a.Floats, h.shape), rowMajor(a.Bytes, h.shape), rowMajor(a.Text, h.shape)
	}
	return a, nil
}

// readStart reads the header, and returns the number n and the type e of the elements.
func readStart(r io.Reader) (h *header, n int, e *element, err error) {
	if h, err = readHeader(r); err != nil {
		return nil, 0, nil, err
	}
	n = 1
	for _, k := range h.shape {
		if k > 0 && n > math.MaxInt32*64/k {
			return nil, 0, nil, fmt.Errorf("its shape %v is impossible", h.shape)
		}
		n *= k
	}
	e, err = elementOf(h.descr)
	return h, n, e, err
}

// rowMajor reorders the elements of an array whose first index runs fastest.
func rowMajor[T any](v []T, shape []int) []T {
	if v == nil {
		return nil
	}
	stride := make([]int, len(shape))
	step := 1
	for k, n := range shape {
		stride[k] = step
		step *= n
	}
	out := make([]T, len(v))
	index, from := make([]int, len(shape)), 0
	for i := range out {
		out[i] = v[from]
		for k := len(shape) - 1; k >= 0; k-- {
			index[k]++
			from += stride[k]
			if index[k] < shape[k] {
				break
			}
			from -= stride[k] * shape[k]
			index[k] = 0
		}
	}
	return out
}

// element describes a type of elements.
type element struct {
	size   int // bytes in the file
	memory int // bytes in memory
	float  func(p []byte) (float64, error)
	text   func(p []byte) (string, error)
	bytes  bool
}

// chunk is the approximate number of bytes read at a time.
const chunk = 1 << 16

// read appends n elements to the array.
func (e *element) read(a *Array, r io.Reader, n int) error {
	switch {
	case e.bytes:
		a.Bytes = []byte{}
	case e.text != nil:
		a.Text = []string{}
	default:
		a.Floats = []float64{}
	}
	if e.size == 0 { // strings without characters
		if n > chunk {
			return fmt.Errorf("%d empty strings", n)
		}
		a.Text = make([]string, n)
		return nil
	}
	buf := make([]byte, max(chunk/e.size, 1)*e.size)
	for done := 0; done < n; {
		if done >= n/16 { // much of the data exists, so trust the header and allocate memory for all
			a.Floats, a.Bytes, a.Text = room(a.Floats, n), room(a.Bytes, n), room(a.Text, n)
		}
		p := buf[:min(len(buf)/e.size, n-done)*e.size]
		if k, err := io.ReadFull(r, p); err == io.EOF || err == io.ErrUnexpectedEOF {
			return fmt.Errorf("it ends after %d of %d elements", done+k/e.size, n)
		} else if err != nil {
			return err
		}
		if e.bytes {
			a.Bytes = append(a.Bytes, p...)
			done += len(p)
			continue
		}
		for ; len(p) > 0; p = p[e.size:] {
			var err error
			if e.text != nil {
				var s string
				s, err = e.text(p[:e.size])
				a.Text = append(a.Text, s)
			} else {
				var v float64
				v, err = e.float(p[:e.size])
				a.Floats = append(a.Floats, v)
			}
			if err != nil {
				return fmt.Errorf("element %d: %w", done, err)
			}
			done++
		}
	}
	return nil
}

// room returns v with capacity for n elements; nil for nil.
func room[T any](v []T, n int) []T {
	if v == nil {
		return nil
	}
	return slices.Grow(v, n-len(v))
}

// maxString bounds the bytes of one string.
const maxString = 1 << 16

// elementOf returns the type with NumPy's name descr.
func elementOf(descr string) (*element, error) {
	name, order := descr, binary.ByteOrder(binary.LittleEndian)
	if name != "" && strings.ContainsRune("<>|=", rune(name[0])) {
		if name[0] == '>' {
			order = binary.BigEndian
		}
		name = name[1:]
	}
	number := func(size int, f func(p []byte) (float64, error)) (*element, error) {
		return &element{size: size, memory: 8, float: f}, nil
	}
	exact := func(size int, f func(p []byte) float64) (*element, error) {
		return number(size, func(p []byte) (float64, error) { return f(p), nil })
	}
	switch name {
	case "b1", "?":
		return number(1, truth)
	case "u1", "B":
		return &element{size: 1, memory: 1, bytes: true}, nil
	case "i1", "b":
		return exact(1, func(p []byte) float64 { return float64(int8(p[0])) })
	case "i2":
		return exact(2, func(p []byte) float64 { return float64(int16(order.Uint16(p))) })
	case "u2":
		return exact(2, func(p []byte) float64 { return float64(order.Uint16(p)) })
	case "i4":
		return exact(4, func(p []byte) float64 { return float64(int32(order.Uint32(p))) })
	case "u4":
		return exact(4, func(p []byte) float64 { return float64(order.Uint32(p)) })
	case "i8":
		return number(8, func(p []byte) (float64, error) {
			v := int64(order.Uint64(p))
			f := float64(v)
			return f, inexact(f >= 1<<63 || int64(f) != v, "%d", v)
		})
	case "u8":
		return number(8, func(p []byte) (float64, error) {
			v := order.Uint64(p)
			f := float64(v)
			return f, inexact(f >= 1<<64 || uint64(f) != v, "%d", v)
		})
	case "f2":
		return exact(2, func(p []byte) float64 {
			// The value of an IEEE 754 binary16 number.
			b := order.Uint16(p)
			sign := 1.0
			if b>>15 == 1 {
				sign = -1
			}
			exp, frac := int(b>>10&0x1f), float64(b&0x3ff)
			switch {
			case exp == 0:
				return sign * math.Ldexp(frac, -24)
			case exp < 0x1f:
				return sign * math.Ldexp(1024+frac, exp-25)
			case frac == 0:
				return math.Inf(int(sign))
			}
			return math.NaN()
		})
	case "f4":
		return exact(4, func(p []byte) float64 { return float64(math.Float32frombits(order.Uint32(p))) })
	case "f8":
		return exact(8, func(p []byte) float64 { return math.Float64frombits(order.Uint64(p)) })
	case "O":
		return nil, errors.New("it holds Python objects, which are pickled and not read; save an array of numbers or of strings")
	}
	var length int
	if k, err := fmt.Sscanf(name, "U%d", &length); k == 1 && err == nil && length >= 0 && length <= maxString/4 && name == fmt.Sprintf("U%d", length) {
		return &element{size: 4 * length, memory: 16 + 4*length, text: func(p []byte) (string, error) {
			// Decode UTF-32 with zeros at the end.
			var s strings.Builder
			zeros := 0
			for ; len(p) > 0; p = p[4:] {
				r := order.Uint32(p)
				if r == 0 {
					zeros++
					continue
				}
				if r > math.MaxInt32 || !utf8.ValidRune(rune(r)) {
					return "", inexact(true, "the character %#x", r)
				}
				for ; zeros > 0; zeros-- {
					s.WriteByte(0)
				}
				s.WriteRune(rune(r))
			}
			return s.String(), nil
		}}, nil
	}
	if k, err := fmt.Sscanf(name, "S%d", &length); k == 1 && err == nil && length >= 0 && length <= maxString && name == fmt.Sprintf("S%d", length) {
		return &element{size: length, memory: 16 + length, text: func(p []byte) (string, error) {
			s := strings.TrimRight(string(p), "\x00")
			return s, inexact(!utf8.ValidString(s), "text that is not UTF-8")
		}}, nil
	}
	return nil, fmt.Errorf("its elements are of the type %.40q, which is not read; save numbers or strings", descr)
}

// inexact returns an error if is says that a value cannot be represented, and nil otherwise.
func inexact(is bool, format string, a ...any) error {
	if !is {
		return nil
	}
	return fmt.Errorf(format+" cannot be represented", a...)
}

func truth(p []byte) (float64, error) {
	return float64(p[0]), inexact(p[0] > 1, "the truth value %d", p[0])
}
