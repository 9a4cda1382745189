package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
)

// Read reads a stored file from r, such as a pipe, into memory. It makes the checks of Open, and its errors use
// path as the name of the file. The error is an *Error for a file whose header states more than most bytes.
func Read(r io.Reader, path, kind string, version uint32, most int64) (*File, error) {
	data, err := readUpTo(r, most)
	if err != nil {
		return nil, &Error{path, "cannot be read: " + err.Error(), "", err}
	}
	return newFile(path, kind, version, data, func() error { return nil })
}

// readFile reads a file that cannot be mapped.
func readFile(r io.Reader) ([]byte, func() error, error) {
	data, err := readUpTo(r, math.MaxInt64)
	return data, func() error { return nil }, err
}

// readUpTo reads the header, and then as many bytes as the header states, so that it ends on a device without an
// end. If the header is not a stored file's header, it reads nothing more.
func readUpTo(r io.Reader, most int64) ([]byte, error) {
	head := make([]byte, headerSize)
	n, err := io.ReadFull(r, head)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return head[:n], nil
	}
	if err != nil {
		return nil, err
	}
	if string(head[:len(magic)]) != magic || crc32.Checksum(head[:60], castagnoli) != binary.LittleEndian.Uint32(head[60:]) {
		return head, nil // File.open reports what is wrong
	}
	at, length := binary.LittleEndian.Uint64(head[40:]), binary.LittleEndian.Uint64(head[48:])
	if at > math.MaxInt64/2 || length > math.MaxInt64/2 {
		return head, nil
	}
	if int64(at+length) > most {
		return nil, fmt.Errorf("it has %d bytes, and only %d bytes of memory may be used; name a file, which is mapped instead of read", at+length, most)
	}
	var all bytes.Buffer
	if f, ok := r.(interface{ Size() int64 }); ok && f.Size() == int64(at+length) {
		all.Grow(int(at+length) + bytes.MinRead) // the size is known, so memory is taken once
	}
	all.Write(head) // a write to a buffer does not fail
	// One byte more shows whether there is too much.
	_, err = all.ReadFrom(io.LimitReader(r, int64(at+length)-headerSize+1))
	return all.Bytes(), err
}
