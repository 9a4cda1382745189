// Package lattice has quasi–Monte Carlo points for integrals over a standard normal distribution in up to 256
// dimensions. The points are a shifted rank-1 lattice, folded by the tent transform and mapped by the inverse
// normal CDF. The first 2ᵐ points of a sequence are a lattice for every m, so that doubling the number of points
// keeps all earlier ones.
package lattice

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"sync"

	"gonum.org/v1/gonum/mathext"
)

const (
	// MaxDims is the most dimensions.
	MaxDims = len(generator)
	// Points is the number of points of a sequence.
	Points = 1 << logPoints

	logPoints = 16
	// The first coordinates of the points of the first sequences are kept in memory.
	keptDims, keptShifts = 16, 4
	block                = 256
)

// kept has the normal numbers of block b of sequence s, keptDims×block, computed when first asked for.
var kept [keptShifts][Points / block]struct {
	once    sync.Once
	normals []float64
}

// NormalsTo writes points lo to hi−1 of sequence shift to dst, (hi−lo)×dims. Sequences differ by a fixed random
// shift of the lattice. All coordinates are finite and within ±8.
func NormalsTo(dst []float64, dims, shift, lo, hi int) {
	switch {
	case dims < 0 || dims > MaxDims:
		panic("lattice: too many dimensions")
	case lo < 0 || hi > Points || len(dst) != (hi-lo)*dims:
		panic("lattice: wrong range or length")
	}
	if dims > keptDims || shift >= keptShifts {
		compute(dst, dims, offsets(dims, shift), lo)
		return
	}
	for k := lo; k < hi; k++ {
		normals := keptBlock(shift, k/block)
		for j := range dims {
			dst[(k-lo)*dims+j] = normals[j*block+k%block]
		}
	}
}

// Columns returns points lo to hi−1 by coordinates: coordinate j of all these points starts at points[j·stride].
// They must not be changed. ok is false where the points are not kept: for more than 16 dimensions, from sequence 4
// on, and where the range crosses a multiple of 256.
func Columns(dims, shift, lo, hi int) (points []float64, stride int, ok bool) {
	if dims > keptDims || shift >= keptShifts || lo < 0 || lo >= hi || hi > Points || lo/block != (hi-1)/block {
		return nil, 0, false
	}
	return keptBlock(shift, lo/block)[lo%block:], block, true
}

// keptBlock returns the normal numbers of block b of a sequence, keptDims×block.
func keptBlock(shift, b int) []float64 {
	k := &kept[shift][b]
	k.once.Do(func() {
		rows := make([]float64, block*keptDims)
		compute(rows, keptDims, offsets(keptDims, shift), b*block)
		k.normals = make([]float64, len(rows))
		for i := range block {
			for j := range keptDims {
				k.normals[j*block+i] = rows[i*keptDims+j]
			}
		}
	})
	return k.normals
}

// offsets returns the shift of each coordinate in a sequence.
func offsets(dims, shift int) []float64 {
	rng := rand.New(rand.NewPCG(uint64(shift), 0x9e3779b97f4a7c15))
	v := make([]float64, dims)
	for j := range v {
		v[j] = rng.Float64()
	}
	return v
}

func compute(dst []float64, dims int, offset []float64, lo int) {
	for i := range len(dst) / max(dims, 1) {
		// the radical inverse of the index, in units of 1/Points
		k := bits.Reverse32(uint32(lo+i)) >> (32 - logPoints)
		for j := range dims {
			x := float64(k*generator[j]%Points)/Points + offset[j]
			x -= math.Floor(x)
			t := 1 - math.Abs(2*x-1)
			dst[i*dims+j] = mathext.NormalQuantile(min(max(t, 0x1p-50), 1-0x1p-50))
		}
	}
}
