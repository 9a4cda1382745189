package gunzip

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/crc32"
)

const (
	headerBytes, trailerBytes = 10, 8

	hasName  = 1 << 3 // the only flag of a header that is read
	mostName = 500
)

// Decode returns the content of a gzip file of at most most bytes. ok is false where
// the file is damaged, is longer or has what is rare, and where ctx is done.
func Decode(ctx context.Context, file []byte, most int) (plain []byte, ok bool) {
	body, ok := stripHeader(file)
	if !ok || len(body) < trailerBytes {
		return nil, false
	}
	trailer := body[len(body)-trailerBytes:]
	sum, length := binary.LittleEndian.Uint32(trailer), int64(binary.LittleEndian.Uint32(trailer[4:]))
	if length > int64(most) {
		return nil, false
	}
	d := newDecoder(body, int(length))
	if !d.run(ctx) || d.used() != d.end || len(d.out) != int(length) || crc32.ChecksumIEEE(d.out) != sum {
		return nil, false
	}
	return d.out, true
}

// stripHeader returns what follows the header of the member.
func stripHeader(file []byte) (body []byte, ok bool) {
	// Magic number, and the method deflate.
	if len(file) < headerBytes || !bytes.HasPrefix(file, []byte{0x1f, 0x8b, 8}) {
		return nil, false
	}
	body = file[headerBytes:]
	switch file[3] {
	case 0:
		return body, true
	case hasName:
		end := bytes.IndexByte(body[:min(len(body), mostName)], 0)
		return body[end+1:], end >= 0
	}
	return nil, false
}
