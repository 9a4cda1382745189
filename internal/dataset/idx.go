package dataset

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"

	"github.com/funcgp/funcgp/internal/option"
)

// Limits of an IDX file. Larger files are refused before memory is allocated.
const (
	maxIDXBytes = 1 << 30
	maxIDXSide  = 1 << 14
)

// idx is the content of an IDX file of unsigned bytes.
type idx struct {
	dims []int  // rows first
	data []byte // the product of dims
}

// readIDXFile reads the IDX file at path; rank is 3 for images, 1 for labels. A positive most
// bounds the bytes of images.
func readIDXFile(ctx context.Context, path string, rank int, most int64) (*idx, error) {
	f, err := openFile(ctx, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	x, err := readIDX(f, path, rank, most)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return x, err
}

// readIDX reads an IDX stream of unsigned bytes, which may be compressed with gzip: the magic
// number, the dimensions and the rows. Since the dimensions may be wrong, memory is allocated only
// as bytes arrive.
func readIDX(r io.Reader, name string, rank int, most int64) (*idx, error) {
	fail := func(place int, err error, remedy option.Text, format string, a ...any) (*idx, error) {
		return nil, &Error{File: name, Place: fmt.Sprintf("byte %d", place), Problem: fmt.Sprintf(format, a...), Err: err, Remedy: remedy}
	}
	b := bufio.NewReaderSize(r, 1<<16)
	if magic, _ := b.Peek(2); len(magic) == 2 && magic[0] == 0x1f && magic[1] == 0x8b {
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, &Error{File: name, Problem: "not a readable gzip stream", Err: err, Remedy: again}
		}
		b = bufio.NewReaderSize(z, 1<<16)
	}
	head := make([]byte, 4+4*rank)
	n, err := io.ReadFull(b, head)
	if want := uint32(0x800 + rank); n >= 4 && binary.BigEndian.Uint32(head) != want {
		return fail(0, nil, "give an IDX file; images and labels must not be swapped", "magic number %#08x, want %#08x for %s of unsigned bytes",
			binary.BigEndian.Uint32(head), want, map[int]string{1: "labels", 3: "images"}[rank])
	}
	if err != nil {
		return fail(n, notEOF(err), again, "the header ends after %d of %d bytes", n, len(head))
	}
	x, total, rowBytes := &idx{}, uint64(1), 1
	for i := range rank {
		d := binary.BigEndian.Uint32(head[4+4*i:])
		if d == 0 || i > 0 && d > maxIDXSide {
			return fail(4+4*i, nil, again, "dimension %d is %d", i, d)
		}
		if i > 0 {
			rowBytes *= int(d)
		}
		total *= uint64(d) // ≤ 2^32·2^14·2^14
		x.dims = append(x.dims, int(d))
	}
	if total > maxIDXBytes {
		return fail(4, nil, "split the file", "dimensions %v ask for %d bytes, more than the %d this reader takes", x.dims, total, maxIDXBytes)
	}
	if rank > 1 && most > 0 && total > uint64(most) {
		return nil, &Error{File: name, Problem: fmt.Sprintf("its images take %d bytes of memory, of which %d may be used", total, most), Remedy: "give fewer rows, or allow more memory"}
	}
	for have := 0; err == nil && have < int(total); {
		grown := make([]byte, min(int(total), max(1<<16, 4*have)))
		copy(grown, x.data)
		n, err = io.ReadFull(b, grown[have:])
		have += n
		x.data = grown[:have]
	}
	if err != nil {
		have := len(x.data)
		return nil, &Error{
			File: name, Place: fmt.Sprintf("row %d, byte %d", have/rowBytes, len(head)+have),
			Problem: fmt.Sprintf("the data end after %d of the %d bytes the header states (%d rows)", have, total, x.dims[0]),
			Err:     notEOF(err), Remedy: again,
		}
	}
	switch _, err := b.ReadByte(); {
	case err == nil:
		return fail(len(head)+int(total), nil, again, "data go on after the %d rows the header states", x.dims[0])
	case err != io.EOF:
		return fail(len(head)+int(total), err, again, "the end of the stream is damaged")
	}
	return x, nil
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
