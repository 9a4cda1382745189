package vector

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
)

// The kernels give the same bits on every processor that has one: the checksums are those
// of the results with AVX2, AVX-512 and NEON alike.
func TestKernelBits(t *testing.T) {
	if !fast {
		t.Skip("this processor has no kernel")
	}
	const n, rows, rank = 1024, 7, 5
	for name, test := range map[string]struct {
		want uint64
		do   func(x, y []float64, uniform func(n int, most float64) []float64) []float64
	}{
		"exp": {0xd4d23164ef36cbc9, func(x, _ []float64, _ func(int, float64) []float64) []float64 {
			Exp(x, x)
			return x
		}},
		"tanh": {0x626a3c727705f0a8, func(x, y []float64, _ func(int, float64) []float64) []float64 {
			Tanh(x, y)
			return x
		}},
		"axpy": {0x715f7a4c29711fb5, func(x, y []float64, _ func(int, float64) []float64) []float64 {
			Axpy(x, 1.7, y)
			return append(x, Dot(x, y))
		}},
		"deviations": {0x4090e474c00f4900, func(x, y []float64, _ func(int, float64) []float64) []float64 {
			sum, square := Deviations(x, y, 0.3)
			return append(x, sum, square)
		}},
		"affine": {0x647f8f71c50f03e9, func(_, _ []float64, uniform func(int, float64) []float64) []float64 {
			l, e, inverse := make([]float64, rows*n), make([]float64, rows*n), make([]float64, n)
			ExpAffine(l, e, inverse, uniform(rows*(rank+1), 30), uniform(rank*n, 3), rows, 1, rank, n, n, n)
			return append(append(l, e...), inverse...)
		}},
		"largest": {0x970b3d2985517d2d, func(_, _ []float64, uniform func(int, float64) []float64) []float64 {
			const columns = 60
			at, table := make([]int, rows*n), uniform(LargestPhases*columns+100, 1)
			LargestPlaces(at, uniform(rows*n, 9), 21.7, 1000, columns, rows, n, n)
			sums, squares := make([]float64, rows*LargestLanes), make([]float64, rows*LargestLanes)
			AddLargest(sums, squares, table, table[7:], table[60:], at, rows, n, n)
			return append(sums, squares...)
		}},
	} {
		r := rand.New(rand.NewPCG(1, 2))
		uniform := func(n int, most float64) []float64 {
			x := make([]float64, n)
			for i := range x {
				x[i] = most * (2*r.Float64() - 1) // 2u − 1 is exact, fused or not
			}
			return x
		}
		h := fnv.New64a()
		for _, v := range test.do(uniform(n, 720), uniform(n, 4), uniform) {
			_ = binary.Write(h, binary.LittleEndian, math.Float64bits(v))
		}
		assert.Equal(t, test.want, h.Sum64(), name)
	}
}
