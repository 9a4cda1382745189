package gunzip

import (
	"context"
	"encoding/binary"
	"slices"
)

const (
	mostLength   = 258 // of a copy
	mostLiterals = 3   // of one step of a block
	overshoot    = 7   // bytes that a copy may write behind its end

	// slack is what one step of a block may write.
	slack = mostLiterals + mostLength + overshoot
)

// A decoder inflates one deflate stream.
type decoder struct {
	in     []byte // the stream and trailerBytes more
	end    int    // of the stream in in
	length int    // of the output, which may be false
	pos    int    // next byte of in
	bits   uint64 // bits of in before pos that are not consumed, the next one lowest; those beyond n are of no use
	n      uint   // how many; less than zero, and so very large, where more were consumed

	out []byte

	literals  [1<<literalBits + secondEntries]entry
	distances [1<<distanceBits + secondEntries]entry
}

// newDecoder takes memory for eight times the input at first, and more when data
// come that need it.
func newDecoder(body []byte, length int) *decoder {
	return &decoder{
		in: body, end: len(body) - trailerBytes, length: length,
		out: make([]byte, 0, min(length, 8*len(body))+slack),
	}
}

// used returns how many bytes of the stream are consumed, the last one perhaps in part.
func (d *decoder) used() int { return d.pos - int(d.n/8) }

// refill makes at least 56 bits available, or those that there are. It returns false
// where more were consumed.
func (d *decoder) refill() bool {
	if d.pos <= d.end {
		d.bits |= binary.LittleEndian.Uint64(d.in[d.pos:]) << d.n
		d.pos += int((63 - d.n) >> 3)
		d.n |= 56
	}
	return d.n < 64
}

// take consumes k bits.
func (d *decoder) take(k uint) int {
	v := d.bits & (1<<k - 1)
	d.bits >>= k
	d.n -= k
	return int(v)
}

// run decodes all blocks.
func (d *decoder) run(ctx context.Context) bool {
	for {
		if ctx.Err() != nil || !d.refill() {
			return false
		}
		last := d.take(1) == 1
		ok := false
		switch d.take(2) {
		case 0:
			ok = d.stored()
		case 1:
			ok = d.fixedTables() && d.block()
		case 2:
			ok = d.readTables() && d.block()
		}
		if !ok {
			return false
		}
		if last {
			return true
		}
	}
}

// stored copies a block that is not compressed.
func (d *decoder) stored() bool {
	d.pos, d.n, d.bits = d.used(), 0, 0
	if d.pos < 0 || d.pos+4 > d.end {
		return false
	}
	n, not := binary.LittleEndian.Uint16(d.in[d.pos:]), binary.LittleEndian.Uint16(d.in[d.pos+2:])
	d.pos += 4
	if n != ^not || d.pos+int(n) > d.end || len(d.out)+int(n) > d.length {
		return false
	}
	d.out = append(d.out, d.in[d.pos:d.pos+int(n)]...)
	d.pos += int(n)
	return true
}

// fixedTables makes the tables of a block with the code of RFC 1951, 3.2.6.
func (d *decoder) fixedTables() bool {
	var lengths [288]uint8
	for s := range lengths {
		switch {
		case s < 144:
			lengths[s] = 8
		case s < 256:
			lengths[s] = 9
		case s < 280:
			lengths[s] = 7
		default:
			lengths[s] = 8
		}
	}
	var five [32]uint8
	for s := range five {
		five[s] = 5
	}
	return d.build(lengths[:], five[:])
}

func (d *decoder) build(lengths, ofDistances []uint8) bool {
	return build(d.literals[:], literalBits, lengths, literals[:]) && build(d.distances[:], distanceBits, ofDistances, distances[:])
}

// numberOrder is the order in which the lengths of the codes for lengths come.
var numberOrder = [19]int{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}

// readTables reads the tables of a block with its own code (RFC 1951, 3.2.7).
func (d *decoder) readTables() bool {
	nLiteral, nDistance, nNumber := d.take(5)+257, d.take(5)+1, d.take(4)+4
	if nLiteral > 286 || nDistance > 30 {
		return false
	}
	var ofNumbers [19]uint8
	for _, s := range numberOrder[:nNumber] {
		if !d.refill() {
			return false
		}
		ofNumbers[s] = uint8(d.take(3))
	}
	var table [1 << lengthBits]entry
	if !build(table[:], lengthBits, ofNumbers[:], numbers[:]) {
		return false
	}
	var lengths [286 + 30]uint8
	for i := 0; i < nLiteral+nDistance; {
		if !d.refill() {
			return false
		}
		e := table[d.bits&(1<<lengthBits-1)]
		if e == 0 {
			return false
		}
		d.take(uint(e & bitsMask))
		s, again, value := uint8(e>>16), 1, uint8(0)
		switch {
		case s < 16:
			value = s
		case s == 16:
			if i == 0 {
				return false
			}
			value, again = lengths[i-1], 3+d.take(2)
		case s == 17:
			again = 3 + d.take(3)
		default:
			again = 11 + d.take(7)
		}
		if i+again > nLiteral+nDistance {
			return false
		}
		for range again {
			lengths[i] = value
			i++
		}
	}
	return d.build(lengths[:nLiteral], lengths[nLiteral:nLiteral+nDistance])
}

// block decodes the symbols of a block. The bits are in local variables, which the
// compiler keeps in registers.
func (d *decoder) block() bool {
	in, pos, bits, n := d.in, d.pos, d.bits, d.n
	o, out := len(d.out), d.out[:cap(d.out)]
	for {
		if len(out)-o < slack {
			if o > d.length {
				return false
			}
			out = slices.Grow(out, min(len(out), d.length+slack-len(out)))
			out = out[:cap(out)]
		}
		if pos <= d.end {
			bits |= binary.LittleEndian.Uint64(in[pos:]) << (n & 63)
			pos += int((63 - n) >> 3)
			n |= 56
		} else if n >= 64 {
			return false
		}
		// Up to three literals with codes in the first table, 11 bits each.
		e := d.literals[bits&(1<<literalBits-1)]
		if e&literal != 0 {
			bits, n = bits>>(e&bitsMask), n-uint(e&bitsMask)
			out[o] = byte(e >> 16)
			o++
			e = d.literals[bits&(1<<literalBits-1)]
			if e&literal != 0 {
				bits, n = bits>>(e&bitsMask), n-uint(e&bitsMask)
				out[o] = byte(e >> 16)
				o++
				e = d.literals[bits&(1<<literalBits-1)]
				if e&literal != 0 {
					bits, n = bits>>(e&bitsMask), n-uint(e&bitsMask)
					out[o] = byte(e >> 16)
					o++
					continue
				}
			}
			// A copy takes up to 15 + 5 + 15 + 13 bits.
			if pos <= d.end {
				bits |= binary.LittleEndian.Uint64(in[pos:]) << (n & 63)
				pos += int((63 - n) >> 3)
				n |= 56
			}
		}
		if e&link != 0 {
			bits, n = bits>>literalBits, n-literalBits
			e = d.literals[uint64(e>>16)+bits&(1<<(e>>8&15)-1)]
			if e&literal != 0 {
				bits, n = bits>>(e&bitsMask), n-uint(e&bitsMask)
				out[o] = byte(e >> 16)
				o++
				continue
			}
		}
		bits, n = bits>>(e&bitsMask), n-uint(e&bitsMask)
		if e&special != 0 {
			break
		}
		length := int(e>>16) + int(bits&(1<<(e>>8&15)-1))
		bits, n = bits>>(e>>8&15), n-uint(e>>8&15)
		if length == 0 { // no code
			return false
		}
		e = d.distances[bits&(1<<distanceBits-1)]
		if e&link != 0 {
			bits, n = bits>>distanceBits, n-distanceBits
			e = d.distances[uint64(e>>16)+bits&(1<<(e>>8&15)-1)]
		}
		bits, n = bits>>(e&bitsMask), n-uint(e&bitsMask)
		distance := int(e>>16) + int(bits&(1<<(e>>8&15)-1))
		bits, n = bits>>(e>>8&15), n-uint(e>>8&15)
		if distance == 0 || distance > o { // no code, or before the start
			return false
		}
		repeat(out, o, distance, length)
		o += length
	}
	d.out, d.pos, d.bits, d.n = out[:o], pos, bits, n
	return true
}

// repeat copies length bytes from distance before o to o; where they overlap, bytes
// that were copied are copied again. It may write overshoot bytes more.
func repeat(out []byte, o, distance, length int) {
	from, end := o-distance, o+length
	switch {
	case distance >= 8:
		for ; o < end; o, from = o+8, from+8 {
			binary.LittleEndian.PutUint64(out[o:], binary.LittleEndian.Uint64(out[from:]))
		}
	case distance == 1:
		word := uint64(out[from]) * 0x0101010101010101
		for ; o < end; o += 8 {
			binary.LittleEndian.PutUint64(out[o:], word)
		}
	default:
		for ; o < end; o, from = o+1, from+1 {
			out[o] = out[from]
		}
	}
}
