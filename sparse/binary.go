package sparse

import (
	"encoding"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/funcgp/funcgp/internal/memory"
)

// The binary form of sums, little-endian: magic and version; M, C, rank, N
// and the approximation as uint64; the fingerprint of the inducing inputs; tr
// K_ZZ and the scalars; rhs; square; the upper triangle of gram by rows; the CRC-32C
// of everything before.
const (
	sumsMagic   = "fgpsums\x00"
	sumsVersion = 2
	sumsHeader  = len(sumsMagic) + 4 + 6*8
	sumsScalars = 8 // tr K_ZZ and scalars
)

var (
	_ encoding.BinaryMarshaler   = (*Sums)(nil)
	_ encoding.BinaryUnmarshaler = (*Sums)(nil)
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sumsSize returns the length of the binary form.
func sumsSize(rank int) int64 {
	r := int64(rank)
	floats := memory.Add(int64(sumsScalars), memory.Add(2*r, memory.Mul(r, r+1)/2))
	return memory.Add(int64(sumsHeader)+4, memory.Mul(8, floats))
}

// MarshalBinary writes the sums with a version and a CRC-32C.
func (s *Sums) MarshalBinary() ([]byte, error) {
	o := s.origin
	buf := make([]byte, 0, sumsSize(o.rank))
	buf = append(buf, sumsMagic...)
	buf = binary.LittleEndian.AppendUint32(buf, sumsVersion)
	fitc := uint64(0)
	if o.fitc {
		fitc = 1
	}
	for _, v := range []uint64{uint64(o.m), uint64(o.c), uint64(o.rank), uint64(s.n), fitc, o.inputs} {
		buf = binary.LittleEndian.AppendUint64(buf, v)
	}
	put := func(v ...float64) {
		for _, x := range v {
			buf = binary.LittleEndian.AppendUint64(buf, math.Float64bits(x))
		}
	}
	put(o.trace)
	for _, v := range s.list() {
		put(*v)
	}
	put(s.rhs...)
	put(s.square...)
	for i := range o.rank {
		put(s.gram[i*o.rank+i : (i+1)*o.rank]...)
	}
	return binary.LittleEndian.AppendUint32(buf, crc32.Checksum(buf, castagnoli)), nil
}

// UnmarshalBinary reads sums. Data that are cut short, changed or of another
// version are an error, and s is then unchanged.
func (s *Sums) UnmarshalBinary(data []byte) error {
	if len(data) < sumsHeader+4 || string(data[:len(sumsMagic)]) != sumsMagic {
		return errors.New("sparse: these are no sums")
	}
	body, sum := data[:len(data)-4], binary.LittleEndian.Uint32(data[len(data)-4:])
	if crc32.Checksum(body, castagnoli) != sum {
		return errors.New("sparse: the sums are damaged: their checksum is wrong")
	}
	if v := binary.LittleEndian.Uint32(body[len(sumsMagic):]); v != sumsVersion {
		return fmt.Errorf("sparse: sums of version %d; this program reads version %d", v, sumsVersion)
	}
	var head [6]uint64
	for i := range head {
		head[i] = binary.LittleEndian.Uint64(body[len(sumsMagic)+4+8*i:])
	}
	for _, v := range head[:4] {
		if v > math.MaxInt32 {
			return errors.New("sparse: the sums have an impossible size")
		}
	}
	o := origin{m: int(head[0]), c: int(head[1]), rank: int(head[2]), fitc: head[4] == 1, inputs: head[5]}
	if head[4] > 1 || int64(o.rank) > memory.Mul(int64(o.m), int64(o.c)) || int64(len(data)) != sumsSize(o.rank) {
		return errors.New("sparse: the sums have an impossible size")
	}
	r := floatReader(body[sumsHeader:])
	o.trace = r.next()
	t := newSums(o)
	t.n = int(head[3])
	for _, v := range t.list() {
		*v = r.next()
	}
	for i := range t.rhs {
		t.rhs[i] = r.next()
	}
	for i := range t.square {
		t.square[i] = r.next()
	}
	for i := range o.rank {
		for j := i; j < o.rank; j++ {
			t.gram[i*o.rank+j] = r.next()
		}
	}
	*s = *t
	return nil
}

// floatReader is what is left of a list of numbers.
type floatReader []byte

func (r *floatReader) next() float64 {
	v := math.Float64frombits(binary.LittleEndian.Uint64(*r))
	*r = (*r)[8:]
	return v
}
