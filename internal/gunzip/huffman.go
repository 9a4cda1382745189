package gunzip

import "math/bits"

// An entry of a table says what a code means. Its low five bits are the bits to
// consume, then come its kind, from bit 8 on how many extra bits follow, and from bit 16 on
// a literal, the least length or distance, or the place of a second table. Zero is
// no code.
type entry = uint32

const (
	bitsMask = 31
	literal  = 1 << 5 // the value is a byte
	special  = 1 << 6 // the end of a block or, with link, a second table
	link     = 1 << 7 // the value is the place of a second table, the extra bits its index
)

const (
	mostBits = 15 // of a code

	literalBits  = 11 // index of the first table of literals and lengths
	distanceBits = 8
	lengthBits   = 7 // of the codes for the lengths of codes, which have no second table

	// secondEntries is more than all second tables take. Each is for two or more
	// symbols: 144 tables of 2⁴ entries for literals, 16 of 2⁷ for distances.
	secondEntries = 1 << 12
)

// build fills a table for the canonical Huffman code whose code of symbol s has
// lengths[s] bits, zero where it has none: an index of the first width bits, followed
// by second tables for longer codes. meaning[s] is the entry of s without its bits. It
// returns false where the code is not complete. As in compress/flate, a code without
// symbols and one with a single symbol of one bit are allowed.
func build(table []entry, width int, lengths []uint8, meaning []entry) bool {
	var count [mostBits + 1]int
	longest := 0
	for _, n := range lengths {
		count[n]++
		longest = max(longest, int(n))
	}
	clear(table[:1<<width])
	if longest == 0 {
		return true
	}
	// The first code of each length, left-aligned sums as in RFC 1951, 3.2.2.
	var next [mostBits + 2]int
	code := 0
	for n := 1; n <= longest; n++ {
		code <<= 1
		next[n] = code
		code += count[n]
	}
	if code != 1<<longest && !(code == 1 && longest == 1) {
		return false
	}
	free := 1 << width
	for s, n := range lengths {
		n := int(n)
		if n == 0 {
			continue
		}
		// Codes arrive with their first bit lowest.
		c := int(bits.Reverse16(uint16(next[n])) >> (16 - n))
		next[n]++
		if n <= width {
			for i := c; i < 1<<width; i += 1 << n {
				table[i] = meaning[s] | entry(n)
			}
			continue
		}
		first := c & (1<<width - 1)
		if table[first] == 0 {
			table[first] = entry(free)<<16 | entry(longest-width)<<8 | special | link | entry(width)
			clear(table[free : free+1<<(longest-width)])
			free += 1 << (longest - width)
		}
		second := table[table[first]>>16:]
		for i := c >> width; i < 1<<(longest-width); i += 1 << (n - width) {
			second[i] = meaning[s] | entry(n-width)
		}
	}
	return true
}

// The meanings of the symbols (RFC 1951, 3.2.5).
var (
	literals  = literalMeanings()
	distances = distanceMeanings()
	numbers   = numberMeanings()
)

func literalMeanings() (m [288]entry) {
	for s := range 256 {
		m[s] = entry(s)<<16 | literal
	}
	m[256] = special
	length := 3
	for s := 257; s < 285; s++ {
		extra := max(0, (s-261)/4)
		m[s] = entry(length)<<16 | entry(extra)<<8
		length += 1 << extra
	}
	m[285] = 258 << 16
	return m // 286 and 287 have no meaning and are refused
}

func distanceMeanings() (m [32]entry) {
	distance := 1
	for s := range 30 {
		extra := max(0, s/2-1)
		m[s] = entry(distance)<<16 | entry(extra)<<8
		distance += 1 << extra
	}
	return m
}

func numberMeanings() (m [19]entry) {
	for s := range m {
		m[s] = entry(s)<<16 | literal
	}
	return m
}
