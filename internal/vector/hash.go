package vector

import (
	"encoding/binary"
	"hash/maphash"
	"math"
)

var seed = maphash.MakeSeed()

// Hash returns a checksum of x, bit for bit. It differs between processes, and is never 0.
func Hash(x []float64) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	var buf [1024]byte
	for len(x) > 0 {
		n := min(len(x), len(buf)/8)
		for i, v := range x[:n] {
			binary.LittleEndian.PutUint64(buf[8*i:], math.Float64bits(v))
		}
		h.Write(buf[:8*n])
		x = x[n:]
	}
	return max(1, h.Sum64())
}
