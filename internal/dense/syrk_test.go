package dense

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
)

var uplos = []blas.Uplo{blas.Lower, blas.Upper}

func asSymmetric(a blas64.General, u blas.Uplo) blas64.Symmetric {
	return blas64.Symmetric{N: a.Rows, Stride: a.Stride, Data: a.Data, Uplo: u}
}

func checkSyrk(t *testing.T, tA blas.Transpose, alpha float64, a blas64.General, beta float64, c blas64.General, u blas.Uplo) {
	t.Helper()
	poison(c, u, false)
	before := clone(c)
	Syrk(tA, alpha, a, beta, asSymmetric(c, u))
	n, k := dims(tA, a)
	x, y := op(tA, a), op(blas.Trans, a)
	if tA != blas.NoTrans {
		y = op(blas.NoTrans, a)
	}
	every(n, n, k, func(i, j int) {
		if !inTriangle(u, i, j) {
			return
		}
		at := i*c.Stride + j
		want := update(alpha, dot(x, y, i, j, k), beta, before.Data[at])
		want.close(t, c.Data[at], k, "Syrk(%c, %c) n=%d k=%d α=%g β=%g at (%d, %d)", tA, u, n, k, alpha, beta, i, j)
	})
	untouched(t, before, c, func(i, j int) bool { return inTriangle(u, i, j) })
}

func TestSyrk(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		rnd := source(1)
		for range 300 {
			n, k := size(rnd), size(rnd)
			tA := pick(rnd, transposes...)
			r, c := transposedShape(tA, n, k)
			checkSyrk(t, tA, pick(rnd, alphas...), general(rnd, r, c, rnd.IntN(3)),
				pick(rnd, betas...), general(rnd, n, n, rnd.IntN(3)), pick(rnd, uplos...))
		}
		for _, s := range [][2]int{{tileRows + tileCols + 7, 3}, {30, 2*depth + 1}} {
			for _, u := range uplos {
				checkSyrk(t, blas.NoTrans, 1, general(rnd, s[0], s[1], 0), 1, general(rnd, s[0], s[0], 0), u)
				checkSyrk(t, blas.Trans, 1, general(rnd, s[1], s[0], 0), 0, general(rnd, s[0], s[0], 0), u)
			}
		}
		checkSyrk(t, blas.NoTrans, 1, general(rnd, 4, blockArea/8+300, 0), 1, general(rnd, 4, 4, 0), blas.Lower)
	})
}

// Past blockSize the triangle is computed in several rectangles.
func TestSyrkLarge(t *testing.T) {
	if testing.Short() || raceEnabled {
		t.Skip("134 MB")
	}
	rnd := source(2)
	n := blockSize + 5
	a, c := general(rnd, n, 2, 0), general(rnd, n, n, 0)
	for _, u := range uplos {
		checkSyrk(t, blas.NoTrans, 1, a, 0, c, u)
	}
}

func TestSyrkNonFinite(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		rnd := source(3)
		for range 50 {
			n, k := 1+rnd.IntN(60), 1+rnd.IntN(20)
			a := general(rnd, n, k, 0)
			for range 3 {
				a.Data[rnd.IntN(len(a.Data))] = pick(rnd, 0, math.NaN(), math.Inf(1))
			}
			checkSyrk(t, blas.NoTrans, 1, a, pick(rnd, betas...), general(rnd, n, n, 1), pick(rnd, uplos...))
		}
	})
}

// The triangle has the bits of the same product by Gemm.
func TestSyrkBits(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		rnd := source(4)
		for _, u := range uplos {
			a, c := general(rnd, 290, 270, 0), general(rnd, 290, 290, 0)
			want := clone(c)
			Gemm1(blas.NoTrans, blas.Trans, -1, a, a, 1, want)
			for _, procs := range []int{1, 2, 7} {
				got := clone(c)
				withProcs(procs, func() { Syrk(blas.NoTrans, -1, a, 1, asSymmetric(got, u)) })
				for i := range got.Rows {
					for j := range got.Cols {
						if at := i*got.Stride + j; inTriangle(u, i, j) {
							sameBits(t, "Syrk", got.Data[at:at+1], want.Data[at:at+1])
						}
					}
				}
			}
			got := clone(c)
			Syrk1(blas.NoTrans, -1, a, 1, asSymmetric(got, u))
			untouched(t, c, got, func(i, j int) bool { return inTriangle(u, i, j) })
		}
	})
}
