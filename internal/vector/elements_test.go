package vector

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// values returns n numbers among which many are equal, or not finite.
func values(r *rand.Rand, n int) []float64 {
	special := []float64{0, math.Copysign(0, -1), 1, -1, math.NaN(), math.Inf(1), math.Inf(-1), 5e-324, -5e-324}
	x := make([]float64, n)
	for i := range x {
		if x[i] = r.NormFloat64(); r.IntN(2) == 0 {
			x[i] = special[r.IntN(len(special))]
		}
	}
	return x
}

// requireSame fails unless the numbers are equal, with the sign of a zero, or both NaN.
func requireSame(t *testing.T, want, got []float64) {
	t.Helper()
	for i := range want {
		if math.IsNaN(want[i]) && math.IsNaN(got[i]) {
			continue
		}
		require.Equal(t, math.Float64bits(want[i]), math.Float64bits(got[i]), "element %d of %d: want %v, got %v", i, len(want), want[i], got[i])
	}
}

func TestRelu(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for n := range 200 {
		n %= 40
		x, want, got := values(r, n), make([]float64, n+1), make([]float64, n+1)
		for i, v := range x {
			want[i] = max(v, 0)
		}
		want[n], got[n] = 7, 7
		Relu(got[:n], x)
		requireSame(t, want, got)
		Relu(x, x)
		requireSame(t, want[:n], x)
	}
}

func TestWherePositive(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 1))
	for n := range 200 {
		n %= 40
		g, y, want, got := values(r, n), values(r, n), make([]float64, n+1), make([]float64, n+1)
		for i, v := range y {
			if !(v <= 0) {
				want[i] = g[i]
			}
		}
		want[n], got[n] = 7, 7
		WherePositive(got[:n], g, y)
		requireSame(t, want, got)
		WherePositive(g, g, y)
		requireSame(t, want[:n], g)
	}
}

// The maxima, and that their gradient goes to the first of equal elements.
func TestPairs(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	for n := range 400 {
		n %= 20
		a, b, g := values(r, 2*n), values(r, 2*n), values(r, n)
		top := make([]float64, n+1)
		top[n] = 7
		MaxPairs(top[:n], a, b)
		require.Equal(t, 7.0, top[n])
		wantA, wantB := make([]float64, 2*n+1), make([]float64, 2*n+1)
		gotA, gotB := make([]float64, 2*n+1), make([]float64, 2*n+1)
		wantA[2*n], wantB[2*n], gotA[2*n], gotB[2*n] = 7, 7, 7, 7
		for i := range n {
			square := [4]*float64{&a[2*i], &a[2*i+1], &b[2*i], &b[2*i+1]}
			into := [4]*float64{&wantA[2*i], &wantA[2*i+1], &wantB[2*i], &wantB[2*i+1]}
			want, first := math.Inf(-1), -1
			for k, v := range square {
				want = max(want, *v)
				if first < 0 && *v == top[i] {
					first = k
				}
			}
			if math.IsNaN(want) {
				require.True(t, math.IsNaN(top[i]))
				continue
			}
			require.Equal(t, want, top[i])
			*into[first] = g[i]
		}
		SpreadPairs(gotA, gotB, g, top, a, b)
		requireSame(t, wantA, gotA)
		requireSame(t, wantB, gotB)
	}
}

func TestAddRows(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 1))
	for range 300 {
		rows, cols, step := 1+r.IntN(3), 1+r.IntN(20), 1+r.IntN(3)
		ldd, lds := (cols-1)*step+1+r.IntN(3), cols+r.IntN(3)
		dst, src := make([]float64, (rows-1)*ldd+(cols-1)*step+1), make([]float64, (rows-1)*lds+cols)
		for i := range src {
			src[i] = r.NormFloat64()
		}
		for i := range dst {
			dst[i] = r.NormFloat64()
		}
		want := append([]float64(nil), dst...)
		for i := range rows {
			for j := range cols {
				want[i*ldd+j*step] += src[i*lds+j]
			}
		}
		AddRows(dst, ldd, step, src, lds, rows, cols)
		require.Equal(t, want, dst)
	}
	AddRows(nil, 1, 1, nil, 1, 0, 4)
	require.Panics(t, func() { AddRows(make([]float64, 7), 4, 1, make([]float64, 8), 4, 2, 4) })
	require.Panics(t, func() { AddRows(make([]float64, 8), 4, 1, make([]float64, 7), 4, 2, 4) })
	require.Panics(t, func() { AddRows(make([]float64, 8), 4, 0, make([]float64, 8), 4, 2, 4) })
}

func TestSum(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 1))
	for n := range 40 {
		x, want := make([]float64, n), 0.0
		for i := range x {
			x[i] = float64(r.IntN(1000)) // sums are exact
			want += x[i]
		}
		require.Equal(t, want, Sum(x))
	}
}

// Axpy has the bits of the loop.
func TestAxpy(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 1))
	for n := range 80 {
		x, want, got := values(r, n), values(r, n+1), make([]float64, n+1)
		copy(got, want)
		alpha := r.NormFloat64()
		for i, v := range x {
			want[i] += float64(alpha * v)
		}
		Axpy(got, alpha, x)
		requireSame(t, want, got)
	}
}

func TestDot(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 1))
	for n := range 80 {
		x, y, want := make([]float64, n), make([]float64, n), 0.0
		for i := range x {
			x[i], y[i] = float64(r.IntN(1000)), float64(r.IntN(1000)) // sums are exact
			want += x[i] * y[i]
		}
		require.Equal(t, want, Dot(x, y))
	}
	require.True(t, math.IsNaN(Dot(make([]float64, 17), append(make([]float64, 3), append([]float64{math.NaN()}, make([]float64, 13)...)...))))
}

func TestExpAffine(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, size := range [][5]int{{3, 0, 1, 16, 0}, {10, 0, 9, 128, 0}, {11, 1, 9, 32, 5}, {6, 2, 16, 48, 3}} {
		rows, extra, rank, n, more := size[0], size[1], size[2], size[3], size[4]
		ld, ldz := n+more, n+2*more
		a, z := make([]float64, rows*(rank+1)), make([]float64, rank*ldz)
		for i := range a {
			a[i] = 20 * r.NormFloat64()
		}
		for i := range z {
			z[i] = min(max(r.NormFloat64(), -2), 2)
		}
		l, e, inverse := make([]float64, rows*ld), make([]float64, rows*ld), make([]float64, n)
		ExpAffine(l, e, inverse, a, z, rows, extra, rank, ld, ldz, n)
		for k := range n {
			total := 0.0
			for i := range rows {
				want := a[i*(rank+1)]
				for q := range rank {
					want += a[i*(rank+1)+q+1] * z[q*ldz+k]
				}
				require.InDelta(t, want, l[i*ld+k], 1e-11)
				require.InEpsilon(t, math.Exp(l[i*ld+k]), e[i*ld+k], 4e-14)
				if i < rows-extra {
					total += e[i*ld+k]
				}
			}
			require.InEpsilon(t, 1/total, inverse[k], 1e-14)
		}
		for i := range rows - 1 { // what lies between rows stays
			for k := n; k < ld; k++ {
				require.Zero(t, l[i*ld+k])
				require.Zero(t, e[i*ld+k])
			}
		}
	}
	require.Panics(t, func() { ExpAffine(nil, nil, nil, nil, nil, 1, 0, 1, 8, 8, 8) })
	require.Panics(t, func() { ExpAffine(make([]float64, 16), nil, nil, nil, nil, 1, 0, 1, 16, 16, 16) })
}

// The largest and the smallest logits that are allowed keep their digits.
func TestExpAffineOfFarLogits(t *testing.T) {
	l, e, inverse, z := make([]float64, 16), make([]float64, 16), make([]float64, 16), make([]float64, 16)
	for k := range z {
		z[k] = -700 + 1400*float64(k)/15
	}
	ExpAffine(l, e, inverse, []float64{0, 1}, z, 1, 0, 1, 16, 16, 16)
	for k, v := range z {
		require.Equal(t, v, l[k])
		require.InEpsilon(t, math.Exp(v), e[k], 4e-14)
	}
}

func TestDeviations(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{0, 16, 112, 256} {
		x, y, want := make([]float64, n), make([]float64, n), make([]float64, n)
		var sum, square float64
		for i := range x {
			x[i], y[i] = r.Float64(), r.Float64()
			want[i] = x[i]*y[i] - 0.3
			sum += want[i]
			square += want[i] * want[i]
		}
		gotSum, gotSquare := Deviations(x, y, 0.3)
		require.InDeltaSlice(t, append(want, sum, square), append(x, gotSum, gotSquare), 1e-13)
	}
	require.Panics(t, func() { Deviations(make([]float64, 8), make([]float64, 8), 0) })
}

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

// Sums of products of table values are those by definition.
func TestAddLargest(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	table := func() []float64 {
		v := make([]float64, 300)
		for i := range v {
			v[i] = r.Float64()
		}
		return v
	}
	cdf, first, second := table(), table(), table()
	for _, c := range []int{1, 3, 10} {
		const n, ld = 7, 9
		at := make([]int, c*ld)
		for i := range at {
			at[i] = r.IntN(len(cdf) - LargestNodes + 1)
		}
		sums, squares := make([]float64, c*LargestLanes), make([]float64, c*LargestLanes)
		sums[0], squares[c*LargestLanes-1] = 1, 2
		AddLargest(sums, squares, cdf, first, second, nil, c, ld, 0)
		AddLargest(sums, squares, cdf, first, second, at, c, ld, n)
		for j := range c {
			want, want2 := 0.0, 0.0
			for k := range n {
				for i := range LargestNodes {
					p := 1.0
					for l := range c {
						p *= cdf[at[l*ld+k]+i]
					}
					want += p * first[at[j*ld+k]+i]
					want2 += p * second[at[j*ld+k]+i]
				}
			}
			if j == 0 {
				want++
			}
			if j == c-1 {
				want2 += 2
			}
			require.InEpsilon(t, want, Sum(sums[j*LargestLanes:(j+1)*LargestLanes]), 1e-13)
			require.InEpsilon(t, want2, Sum(squares[j*LargestLanes:(j+1)*LargestLanes]), 1e-13)
		}
	}
	for _, a := range []int{-1, len(cdf) - LargestNodes + 1} {
		require.Panics(t, func() {
			AddLargest(make([]float64, 8), make([]float64, 8), cdf, first, second, []int{a}, 1, 1, 1)
		})
	}
}

// Places are those by definition, but for what rounding moves from one to the next.
func TestLargestPlaces(t *testing.T) {
	const columns, last, scale, ld = 50, 40*LargestPhases + 7, 21.7, 45
	r := rand.New(rand.NewPCG(5, 6))
	for _, c := range []int{1, 3, 10} {
		for _, n := range []int{1, 8, 11, 45} {
			l, at := make([]float64, c*ld), make([]int, c*ld)
			for i := range l {
				l[i] = 40 * r.NormFloat64()
				at[i] = -1
			}
			LargestPlaces(at, l, scale, last, columns, c, ld, n)
			for k := range ld {
				top := math.Inf(-1)
				for i := range c {
					top = max(top, l[i*ld+k])
				}
				for i := range c {
					if k >= n {
						require.Equal(t, -1, at[i*ld+k])
						continue
					}
					u := at[i*ld+k]/columns + at[i*ld+k]%columns*LargestPhases
					require.InDelta(t, min((top-l[i*ld+k])*scale, last), u, .5+1e-9)
				}
			}
		}
	}
}
