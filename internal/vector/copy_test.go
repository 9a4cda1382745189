package vector

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// checkCopy compares a copy with the definition, for all small sizes, and that nothing
// beside the rows is written. The ends of both slices are those of their memory.
func checkCopy(t *testing.T, do func(dst []float64, ldd int, src []float64, lds, step, rows, cols int), steps ...int) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	for _, step := range steps {
		for rows := 1; rows <= 3; rows++ {
			for cols := 1; cols <= 35; cols++ {
				lds, ldd := (cols-1)*step+1+r.IntN(3), cols+r.IntN(3)
				src, dst := make([]float64, (rows-1)*lds+(cols-1)*step+1), make([]float64, (rows-1)*ldd+cols)
				for i := range src {
					src[i] = r.NormFloat64()
				}
				want := make([]float64, len(dst))
				for i := range dst {
					dst[i] = float64(-i)
				}
				copy(want, dst)
				for i := range rows {
					for j := range cols {
						want[i*ldd+j] = src[i*lds+j*step]
					}
				}
				do(dst, ldd, src, lds, step, rows, cols)
				require.Equal(t, want, dst, "step %d, %d rows, %d columns", step, rows, cols)
			}
		}
	}
}

func TestCopyRows(t *testing.T) {
	checkCopy(t, CopyRows, 1, 2, 3, 5)
	CopyRows(nil, 1, nil, 1, 1, 0, 4)
	require.Panics(t, func() { CopyRows(make([]float64, 7), 4, make([]float64, 8), 4, 1, 2, 4) })
	require.Panics(t, func() { CopyRows(make([]float64, 8), 4, make([]float64, 7), 4, 1, 2, 4) })
	require.Panics(t, func() { CopyRows(make([]float64, 8), 4, make([]float64, 8), 4, 0, 2, 4) })
	x := []float64{math.NaN(), 1, math.Inf(1)}
	got := make([]float64, 2)
	CopyRows(got, 2, x, 3, 2, 1, 2)
	require.True(t, math.IsNaN(got[0]) && math.IsInf(got[1], 1))
}

func BenchmarkCopyRows(b *testing.B) {
	for _, c := range []struct{ step, cols int }{{1, 4}, {1, 10}, {1, 24}, {2, 4}, {2, 12}} {
		b.Run(fmt.Sprintf("step=%d/cols=%d", c.step, c.cols), func(b *testing.B) {
			const rows = 12
			src, dst := make([]float64, rows*50), make([]float64, rows*c.cols)
			b.SetBytes(8 * rows * int64(c.cols))
			for b.Loop() {
				CopyRows(dst, c.cols, src, 50, c.step, rows, c.cols)
			}
		})
	}
}
