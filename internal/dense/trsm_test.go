package dense

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
)

var diags = []blas.Diag{blas.NonUnit, blas.Unit}

// triangle is a random well-conditioned triangle with NaN everywhere that is
// not to be read.
func triangle(rnd *rand.Rand, n, pad int, u blas.Uplo, d blas.Diag) blas64.Triangular {
	return asTriangle(general(rnd, n, n, pad), u, d)
}

func asTriangle(a blas64.General, u blas.Uplo, d blas.Diag) blas64.Triangular {
	n := a.Rows
	for i := range n {
		for j := range n {
			a.Data[i*a.Stride+j] /= math.Sqrt(float64(4 * n))
		}
		a.Data[i*a.Stride+i] = 1 + math.Abs(a.Data[i*a.Stride+i])
	}
	poison(a, u, d == blas.Unit)
	return blas64.Triangular{N: n, Stride: a.Stride, Data: a.Data, Uplo: u, Diag: d}
}

// checkTrsm checks the residual: substitution in any order gives an X with
// |T X − α B| ≤ n·eps·|T| |X| element by element [Higham, theorem 8.5].
func checkTrsm(t *testing.T, s blas.Side, tA blas.Transpose, alpha float64, a blas64.Triangular, b blas64.General) {
	t.Helper()
	before := clone(b)
	Trsm(s, tA, alpha, a, b)
	x, y := triangular(tA, a), op(blas.NoTrans, b)
	if s == blas.Right {
		x, y = y, x
	}
	every(b.Rows, b.Cols, a.N, func(i, j int) {
		got := dot(x, y, i, j, a.N)
		got.close(t, alpha*before.Data[i*b.Stride+j], a.N, "Trsm(%c, %c, %c, %c) %d×%d α=%g at (%d, %d)",
			s, a.Uplo, tA, a.Diag, b.Rows, b.Cols, alpha, i, j)
	})
	untouched(t, before, b, allOf)
}

func TestTrsm(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		rnd := source(1)
		for range 40 {
			n, cols, alpha := size(rnd), size(rnd), pick(rnd, alphas...)
			eachTrsm(func(s blas.Side, u blas.Uplo, tA blas.Transpose, d blas.Diag) {
				m, k := n, cols
				if s == blas.Right {
					m, k = k, m
				}
				checkTrsm(t, s, tA, alpha, triangle(rnd, n, rnd.IntN(3), u, d), general(rnd, m, k, rnd.IntN(3)))
			})
		}
	})
}

// eachTrsm calls f with every kind of triangular solve.
func eachTrsm(f func(s blas.Side, u blas.Uplo, tA blas.Transpose, d blas.Diag)) {
	for _, s := range sides {
		for _, u := range uplos {
			for _, tA := range transposes[:2] {
				for _, d := range diags {
					f(s, u, tA, d)
				}
			}
		}
	}
}

// Triangles of several blocks, the last of them short.
func TestTrsmBlocks(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		rnd := source(2)
		for _, n := range []int{depth, 2*depth + 7} {
			full := general(rnd, n, n, 1)
			b := general(rnd, n, n, 0)
			eachTrsm(func(s blas.Side, u blas.Uplo, tA blas.Transpose, d blas.Diag) {
				x := clone(slice(b, 0, n, 0, 27))
				if s == blas.Right {
					x = clone(slice(b, 0, 27, 0, n))
				}
				checkTrsm(t, s, tA, -0.5, asTriangle(clone(full), u, d), x)
			})
		}
	})
}

// A right-hand side has the same bits alone, among others, and on any number
// of workers.
func TestTrsmBits(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		rnd := source(3)
		const n, cols = depth + 14, 110
		full := general(rnd, n, n, 0)
		eachTrsm(func(s blas.Side, u blas.Uplo, tA blas.Transpose, d blas.Diag) {
			a := asTriangle(clone(full), u, d)
			b, first := general(rnd, n, cols, 0), func(x blas64.General) blas64.General { return slice(x, 0, n, 0, 3) }
			if s == blas.Right {
				b, first = general(rnd, cols, n, 0), func(x blas64.General) blas64.General { return slice(x, 0, 3, 0, n) }
			}
			want := clone(b)
			trsm(s, tA, 2, a, want, limit{workers: 1})
			for _, procs := range []int{1, 2, 7} {
				got := clone(b)
				withProcs(procs, func() { Trsm(s, tA, 2, a, got) })
				sameBits(t, "Trsm", got.Data, want.Data)
			}
			part := first(b)
			Trsm(s, tA, 2, a, part)
			for i := range part.Rows {
				sameBits(t, "part of Trsm", part.Data[i*part.Stride:][:part.Cols], want.Data[i*part.Stride:][:part.Cols])
			}
		})
	})
}

// α = 0 gives zeros whatever A and B hold.
func TestTrsmZero(t *testing.T) {
	a := blas64.Triangular{N: 2, Stride: 2, Data: make([]float64, 4), Uplo: blas.Lower, Diag: blas.NonUnit}
	for _, s := range sides {
		b := blas64.General{Rows: 2, Cols: 2, Stride: 2, Data: []float64{1, math.NaN(), math.Inf(1), -1}}
		Trsm(s, blas.NoTrans, 0, a, b)
		sameBits(t, "X", b.Data, make([]float64, 4))
	}
}

// A NaN spreads to what is computed from it and no further: to the elements
// solved after it, in its own column.
func TestTrsmNaN(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		rnd := source(4)
		const n, cols, at = 70, 50, 33
		eachTrsm(func(s blas.Side, u blas.Uplo, tA blas.Transpose, d blas.Diag) {
			a, b, down := triangle(rnd, n, 0, u, d), general(rnd, n, cols, 0), 1
			if s == blas.Right {
				b, down = general(rnd, cols, n, 0), 0
			}
			i, j := at*down+7*(1-down), at*(1-down)+7*down
			b.Data[i*b.Stride+j] = math.NaN()
			Trsm(s, tA, 1, a, b)
			forward := ((u == blas.Lower) != (tA != blas.NoTrans)) != (s == blas.Right)
			for r := range b.Rows {
				for c := range b.Cols {
					row, col := r, c
					if s == blas.Right {
						row, col = c, r
					}
					want := col == 7 && (row == at || forward == (row > at))
					if got := math.IsNaN(b.Data[r*b.Stride+c]); got != want {
						t.Fatalf("Trsm(%c, %c, %c, %c): NaN at (%d, %d) is %t", s, u, tA, d, r, c, got)
					}
				}
			}
		})
	})
}
