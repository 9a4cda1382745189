package store

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"math"
)

// readFile reads what cannot be mapped: its header, and where that is one of
// a store as many bytes as it says, so that a device without an end is not
// read for ever.
func readFile(r io.Reader) ([]byte, func() error, error) {
	none := func() error { return nil }
	head := make([]byte, headerSize)
	n, err := io.ReadFull(r, head)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return head[:n], none, nil
	}
	if err != nil {
		return nil, nil, err
	}
	if string(head[:len(magic)]) != magic || crc32.Checksum(head[:60], castagnoli) != binary.LittleEndian.Uint32(head[60:]) {
		return head, none, nil // open says what is wrong
	}
	at, length := binary.LittleEndian.Uint64(head[40:]), binary.LittleEndian.Uint64(head[48:])
	if at > math.MaxInt64/2 || length > math.MaxInt64/2 {
		return head, none, nil
	}
	// One byte more shows that there is too much.
	rest, err := io.ReadAll(io.LimitReader(r, int64(at+length)-headerSize+1))
	return append(head, rest...), none, err
}
