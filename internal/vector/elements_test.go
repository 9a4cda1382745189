package vector

import (
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
