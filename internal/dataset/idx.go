package dataset

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
)

// Limits of an IDX file. Larger files are refused before memory is allocated.
const (
	maxIDXBytes = 1 << 30
	maxIDXSide  = 1 << 14
)

// idx is the content of an IDX file of unsigned bytes.
type idx struct {
	dims   []int  // rows first
	data   []byte // the product of dims; nil where images is not
	images *arriving
}

// readIDXFile reads the IDX file at path; rank is 3 for images, 1 for labels.
func readIDXFile(ctx context.Context, path string, rank int) (*idx, error) {
	f, err := openFile(ctx, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	x, err := readIDX(f, path, rank)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return x, err
}

// readIDX reads an IDX stream of unsigned bytes, which may be compressed with
// gzip. As a header may be false, memory is taken as the bytes come.
func readIDX(r io.Reader, name string, rank int) (*idx, error) {
	x := &idx{}
	b, rowBytes, err := x.begin(r, name, rank)
	if err != nil {
		return nil, err
	}
	n := x.dims[0] * rowBytes
	if x.data, err = io.ReadAll(io.LimitReader(b, int64(n))); err != nil || len(x.data) < n {
		return nil, bodyError(name, rank, rowBytes, x.dims[0], len(x.data), err)
	}
	if err := endError(b, name, rank, rowBytes, x.dims[0]); err != nil {
		return nil, err
	}
	return x, nil
}

// begin reads the header, the magic number and the dimensions, and returns a reader of what comes after it, decompressed, and the
// bytes of one row.
func (x *idx) begin(r io.Reader, name string, rank int) (b *bufio.Reader, rowBytes int, err error) {
	b = bufio.NewReaderSize(r, 1<<16)
	if magic, _ := b.Peek(2); len(magic) == 2 && magic[0] == 0x1f && magic[1] == 0x8b {
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, 0, &Error{File: name, Problem: "not a readable gzip stream", Err: err, Remedy: again}
		}
		b = bufio.NewReaderSize(z, 1<<16)
	}
	head := make([]byte, 4+4*rank)
	n, err := io.ReadFull(b, head)
	if want := uint32(0x800 + rank); n >= 4 && binary.BigEndian.Uint32(head) != want {
		return nil, 0, &Error{
			File: name, Place: "byte 0",
			Problem: fmt.Sprintf("magic number %#08x, want %#08x for %s of unsigned bytes",
				binary.BigEndian.Uint32(head), want, map[int]string{1: "labels", 3: "images"}[rank]),
			Remedy: "give an IDX file; images and labels must not be swapped",
		}
	}
	if err != nil {
		return nil, 0, &Error{
			File: name, Place: fmt.Sprintf("byte %d", n), Err: notEOF(err), Remedy: again,
			Problem: fmt.Sprintf("the header ends after %d of %d bytes", n, len(head)),
		}
	}
	total := uint64(1)
	rowBytes = 1
	for i := range rank {
		d := binary.BigEndian.Uint32(head[4+4*i:])
		if i > 0 && (d == 0 || d > maxIDXSide) || d == 0 {
			return nil, 0, &Error{
				File: name, Place: fmt.Sprintf("byte %d", 4+4*i), Remedy: again,
				Problem: fmt.Sprintf("dimension %d is %d", i, d),
			}
		}
		if i > 0 {
			rowBytes *= int(d)
		}
		total *= uint64(d) // ≤ 2^32·2^14·2^14
		x.dims = append(x.dims, int(d))
	}
	if total > maxIDXBytes {
		return nil, 0, &Error{
			File: name, Place: "byte 4", Remedy: "split the file",
			Problem: fmt.Sprintf("dimensions %v ask for %d bytes, more than the %d this reader takes", x.dims, total, maxIDXBytes),
		}
	}
	return b, rowBytes, nil
}

// bodyError is the error of a file that ends, or cannot be read, after some bytes of its rows.
func bodyError(name string, rank, rowBytes, rows, have int, err error) error {
	return &Error{
		File: name, Place: fmt.Sprintf("row %d, byte %d", have/rowBytes, 4+4*rank+have),
		Problem: fmt.Sprintf("the data end after %d of the %d bytes the header states (%d rows)", have, rows*rowBytes, rows),
		Err:     notEOF(err), Remedy: again,
	}
}

// endError is the error of a file that does not end after its rows.
func endError(b *bufio.Reader, name string, rank, rowBytes, rows int) error {
	_, err := b.ReadByte()
	if err == io.EOF {
		return nil
	}
	e := &Error{
		File: name, Place: fmt.Sprintf("byte %d", 4+4*rank+rows*rowBytes), Remedy: again,
		Problem: fmt.Sprintf("data go on after the %d rows the header states", rows),
	}
	if err != nil {
		e.Problem, e.Err = "the end of the stream is damaged", err
	}
	return e
}

// again is the remedy for a damaged file.
const again = "get the file again"

// notEOF drops end-of-file errors, which the message already states.
func notEOF(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}
