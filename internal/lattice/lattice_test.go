package lattice

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// The points integrate polynomials of normals, better when there are more, and
// far better than random points.
func TestMoments(t *testing.T) {
	for _, dims := range []int{1, 3, 9, 40} {
		for shift := range 3 {
			for _, n := range []int{1024, 16384} {
				z := make([]float64, n*dims)
				NormalsTo(z, dims, shift, 0, n)
				random := 1 / math.Sqrt(float64(n)) // standard error of a mean of N(0, 1)
				for j := range dims {
					mean, square, next := 0.0, 0.0, 0.0
					for i := range n {
						v := z[i*dims+j]
						require.Less(t, math.Abs(v), 8.0)
						mean += v / float64(n)
						square += v * v / float64(n)
						next += v * z[i*dims+(j+1)%dims] / float64(n)
					}
					require.InDelta(t, 0, mean, random/4)
					require.InDelta(t, 1, square, random/2)
					if dims > 1 && dims < 10 { // late pairs, which matter little, may be worse
						require.InDelta(t, 0, next, random)
					}
				}
			}
		}
	}
}

// Any range of points, with or without what is kept, holds the same numbers.
func TestRanges(t *testing.T) {
	const dims = 5
	want := make([]float64, 2000*dims)
	compute(want, dims, offsets(dims, 1), 0)
	for _, r := range [][2]int{{0, 2000}, {3, 4}, {200, 700}, {255, 257}} {
		got := make([]float64, (r[1]-r[0])*dims)
		NormalsTo(got, dims, 1, r[0], r[1])
		require.Equal(t, want[r[0]*dims:r[1]*dims], got)
		points, stride, ok := Columns(dims, 1, r[0], r[1])
		require.Equal(t, r[0]/block == (r[1]-1)/block, ok)
		for i := 0; ok && i < r[1]-r[0]; i++ {
			for j := range dims {
				require.Equal(t, got[i*dims+j], points[j*stride+i])
			}
		}
	}
	require.Panics(t, func() { NormalsTo(nil, MaxDims+1, 0, 0, 0) })
	require.Panics(t, func() { NormalsTo(make([]float64, 3), 1, 0, 0, 4) })
	for _, g := range generator {
		require.True(t, g%2 == 1 && g < Points)
	}
}
