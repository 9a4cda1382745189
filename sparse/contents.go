package sparse

import (
	"math"
	"math/bits"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/linearize"
)

// contentsOf returns a checksum of the numbers of b, by which another batch with
// the same numbers is known, wherever either lies in memory. It reports false
// for blocks of a kind that is not linearize's, whose numbers it cannot see.
func contentsOf(b *linearize.Batch) (sum uint64, ok bool) {
	sum = mix(mix(mix(0, uint64(b.Len())), uint64(b.Outputs())), uint64(len(b.Blocks)))
	sum = mixAll(mixAll(sum, b.X), b.F)
	for _, block := range b.Blocks {
		switch v := block.(type) {
		case *linearize.Outer:
			sum = mixAll(mixAll(sum, v.A), v.G)
		case *linearize.Conv:
			sum = mixAll(mixAll(sum, v.X), v.G)
		case *linearize.Full:
			sum = mixAll(sum, v.J)
		default:
			return 0, false
		}
	}
	return sum, true
}

// mixAll mixes the size and the numbers of m, which may be nil, into sum.
func mixAll(sum uint64, m *mat.Dense) uint64 {
	if m == nil {
		return mix(sum, math.MaxUint64)
	}
	r, c := m.Dims()
	sum = mix(mix(sum, uint64(r)), uint64(c))
	for i := range r {
		for _, v := range m.RawRowView(i) {
			sum = mix(sum, math.Float64bits(v))
		}
	}
	return sum
}

// mix is one to one in v for every sum, so that two contents that differ in one
// number never have the same checksum.
func mix(sum, v uint64) uint64 {
	return bits.RotateLeft64((sum^v)*0x9e3779b97f4a7c15, 29)
}
