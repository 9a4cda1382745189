package onnx

import (
	"bytes"
	"io"
	"io/fs"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// A stream of unknown length is held in parts that grow. Sizes are in bytes.
const (
	firstPart   = 64 << 10
	largestPart = 64 << 20
	readStep    = 64 << 10 // of one read
)

// readAll reads r to its end, without a second copy of the bytes in memory. More
// than most bytes are an error. It stops early if the bytes cannot be a message,
// and leaves that error to Decode.
func readAll(r io.Reader, most int64) ([]byte, error) {
	tooLarge := faultf(-1, "more than the %d bytes an ONNX file can have", most)
	size := int64(0) // of r, if it knows it
	switch r := r.(type) {
	case interface{ Len() int }:
		size = int64(r.Len())
	case interface{ Stat() (fs.FileInfo, error) }:
		if info, err := r.Stat(); err == nil && info.Mode().IsRegular() {
			size = info.Size()
		}
	}
	if size > most {
		return nil, tooLarge
	}
	var parts [][]byte
	total, f := int64(0), framing{most: most}
	for next := max(size+1, firstPart); ; next = min(total, largestPart) {
		part, filled := make([]byte, min(next, most+1-total)), 0
		for filled < len(part) {
			n, err := r.Read(part[filled:min(filled+readStep, len(part))])
			filled, total = filled+n, total+int64(n)
			if total > most {
				return nil, tooLarge
			}
			if fault := f.follow(part[filled-n : filled]); fault != nil {
				return nil, fault
			}
			switch {
			case err == io.EOF || f.broken:
				if len(parts) == 0 {
					return part[:filled], nil
				}
				return bytes.Join(append(parts, part[:filled]), nil), nil
			case err != nil:
				return nil, err
			}
		}
		parts = append(parts, part)
	}
}

// A framing follows the records of a message while its bytes arrive.
type framing struct {
	most   int64  // bytes that the message can have
	at     int64  // offset of the next byte
	skip   int64  // bytes left of the current record
	head   []byte // the first bytes of a record whose length is not known yet
	broken bool   // the bytes so far do not begin a message
}

// follow takes the next bytes. A record that is longer than the message may be is
// an error.
func (f *framing) follow(b []byte) error {
	for len(b) > 0 && !f.broken {
		if n := min(f.skip, int64(len(b))); n > 0 {
			b, f.skip, f.at = b[n:], f.skip-n, f.at+n
			continue
		}
		head := b
		if len(f.head) > 0 {
			head = slices.Concat(f.head, b[:min(len(b), longestHead)])
		}
		n, body, broken := recordHead(head)
		if n == 0 {
			f.broken, f.head = broken, slices.Clone(head)
			return nil
		}
		b = b[n-len(f.head):]
		start := f.at
		if f.at, f.skip, f.head = f.at+int64(n), body, nil; body > f.most-f.at {
			return faultf(int(start), "a record of %d bytes, more than the %d an ONNX file can have: too large, or not an ONNX file", body, f.most)
		}
	}
	return nil
}

// longestHead is the number of bytes of two varints, a record's tag and its
// length.
const longestHead = 20

// recordHead reads the head of the record that begins with b: its tag and its
// length or varint. It returns the length n of the head and that of the body that
// follows. n is 0 if b ends inside the head, or if b begins no record, and then
// broken is true.
func recordHead(b []byte) (n int, body int64, broken bool) {
	_, typ, tag := protowire.ConsumeTag(b)
	if tag < 0 {
		return 0, 0, !endsEarly(tag)
	}
	switch typ {
	case protowire.Fixed32Type:
		return tag, 4, false
	case protowire.Fixed64Type:
		return tag, 8, false
	case protowire.VarintType, protowire.BytesType:
		v, k := protowire.ConsumeVarint(b[tag:])
		if k < 0 {
			return 0, 0, !endsEarly(k)
		}
		if typ == protowire.BytesType {
			body = int64(min(v, math.MaxInt64))
		}
		return tag + k, body, false
	}
	return 0, 0, true
}
