package onnx

import (
	"bytes"
	"errors"
	"io"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

type number = protowire.Number

// message is the body of a protobuf message and where it starts in the file. depth
// counts the graphs around it.
type message struct {
	b     []byte
	off   int
	depth int
}

// field is one record of a message. It shares memory with the file, so what is
// kept of it must be copied.
type field struct {
	num protowire.Number
	typ protowire.Type
	off int    // of the record in the file
	val int    // of the value in the file
	u   uint64 // value of a varint, fixed32 or fixed64 record
	b   []byte // value of a length-delimited record
	raw []byte // the whole record

	depth int // of the message
}

// each calls visit for the records of m in file order, up to the first error.
// The field is valid during that call only.
func (m message) each(visit func(f *field) error) error {
	var f field
	for at := 0; at < len(m.b); {
		b := m.b[at:]
		num, typ, k := protowire.ConsumeTag(b)
		if k < 0 {
			return wireError(m.off+at, k)
		}
		f = field{num: num, typ: typ, off: m.off + at, val: m.off + at + k, depth: m.depth}
		n := 0
		switch typ {
		case protowire.VarintType:
			f.u, n = protowire.ConsumeVarint(b[k:])
		case protowire.Fixed32Type:
			var v uint32
			v, n = protowire.ConsumeFixed32(b[k:])
			f.u = uint64(v)
		case protowire.Fixed64Type:
			f.u, n = protowire.ConsumeFixed64(b[k:])
		case protowire.BytesType:
			f.b, n = protowire.ConsumeBytes(b[k:])
			f.val += n - len(f.b)
		default:
			return faultf(f.off, "field %d has wire type %d, which ONNX does not use: damaged, or not an ONNX file", num, typ)
		}
		if n < 0 {
			return wireError(f.off, n)
		}
		f.raw = b[:k+n]
		if err := visit(&f); err != nil {
			return err
		}
		at += k + n
	}
	return nil
}

// wireError returns the error for a negative length returned by protowire.
func wireError(off, n int) error {
	if endsEarly(n) {
		return faultf(off, "the bytes end within a value: cut short, or not an ONNX file")
	}
	return faultf(off, "malformed field: damaged, or not an ONNX file")
}

// endsEarly reports whether the negative length n that protowire returned means
// that there were too few bytes.
func endsEarly(n int) bool { return errors.Is(protowire.ParseError(n), io.ErrUnexpectedEOF) }

// want checks the wire type of a field.
func (f *field) want(typ protowire.Type) error {
	if f.typ != typ {
		return faultf(f.off, "field %d has wire type %d, want %d: damaged, or not an ONNX file", f.num, f.typ, typ)
	}
	return nil
}

func (f *field) message() (message, error) {
	return message{f.b, f.val, f.depth}, f.want(protowire.BytesType)
}

// keep appends the bytes of the record to dst.
func (f *field) keep(dst *[]byte) error {
	*dst = append(*dst, f.raw...)
	return nil
}

// copyBytes returns a copy of the value, nil if it is empty.
func (f *field) copyBytes() []byte {
	if len(f.b) == 0 {
		return nil
	}
	return bytes.Clone(f.b)
}

// scalars counts the elements in one record of a repeated scalar field, which
// are packed or a single one. typ is the wire type of a single element.
func (f *field) scalars(typ protowire.Type) (int, error) {
	if f.typ == typ {
		return 1, nil
	}
	if err := f.want(protowire.BytesType); err != nil {
		return 0, err
	}
	switch typ {
	case protowire.Fixed32Type, protowire.Fixed64Type:
		size := 4
		if typ == protowire.Fixed64Type {
			size = 8
		}
		if len(f.b)%size != 0 {
			return 0, faultf(f.off, "%d bytes of packed %d-byte values", len(f.b), size)
		}
		return len(f.b) / size, nil
	}
	n := 0
	for _, b := range f.b {
		if b < 0x80 { // the last byte of a varint
			n++
		}
	}
	return n, nil
}

// eachScalar calls visit for the elements that scalars counts.
func (f *field) eachScalar(typ protowire.Type, visit func(u uint64) error) error {
	if f.typ == typ {
		return visit(f.u)
	}
	if _, err := f.scalars(typ); err != nil {
		return err
	}
	for b := f.b; len(b) > 0; {
		var u uint64
		var n int
		switch typ {
		case protowire.Fixed32Type:
			var v uint32
			v, n = protowire.ConsumeFixed32(b)
			u = uint64(v)
		case protowire.Fixed64Type:
			u, n = protowire.ConsumeFixed64(b)
		default:
			u, n = protowire.ConsumeVarint(b)
		}
		if n < 0 {
			return wireError(f.val+len(f.b)-len(b), n)
		}
		if err := visit(u); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

func (f *field) int64s(dst *[]int64) error {
	return f.eachScalar(protowire.VarintType, func(u uint64) error {
		*dst = append(*dst, int64(u))
		return nil
	})
}

// appendMessage appends field num, whose value is the message that body appends.
func appendMessage(b []byte, num number, body func(b []byte) ([]byte, error)) ([]byte, error) {
	b = protowire.AppendTag(b, num, protowire.BytesType)
	start := len(b)
	b, err := body(b)
	if err != nil {
		return nil, err
	}
	// The length goes in front once it is known.
	return slices.Insert(b, start, protowire.AppendVarint(nil, uint64(len(b)-start))...), nil
}

// appendBytes appends field num.
func appendBytes[T ~string | ~[]byte](b []byte, num number, v T) []byte {
	b = protowire.AppendTag(b, num, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(len(v)))
	return append(b, v...)
}

// appendString appends field num unless v is empty.
func appendString(b []byte, num number, v string) []byte {
	if v == "" {
		return b
	}
	return appendBytes(b, num, v)
}

// appendInt appends field num, even if v is zero.
func appendInt(b []byte, num number, v int64) []byte {
	b = protowire.AppendTag(b, num, protowire.VarintType)
	return protowire.AppendVarint(b, uint64(v))
}

// appendInts appends field num with one record for each element, the form that
// readers of both protobuf versions accept.
func appendInts(b []byte, num number, v []int64) []byte {
	for _, x := range v {
		b = appendInt(b, num, x)
	}
	return b
}

// appendFloat appends field num, even if v is zero.
func appendFloat(b []byte, num number, v float32) []byte {
	b = protowire.AppendTag(b, num, protowire.Fixed32Type)
	return protowire.AppendFixed32(b, math.Float32bits(v))
}
