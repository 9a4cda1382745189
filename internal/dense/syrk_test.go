package dense

import (
	"fmt"
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

var sides = []blas.Side{blas.Left, blas.Right}

func checkSymm(t *testing.T, s blas.Side, alpha float64, a blas64.Symmetric, b blas64.General, beta float64, c blas64.General) {
	t.Helper()
	before := clone(c)
	Symm(s, alpha, a, b, beta, c)
	x, y := symmetric(a), op(blas.NoTrans, b)
	if s == blas.Right {
		x, y = y, x
	}
	every(c.Rows, c.Cols, a.N, func(i, j int) {
		at := i*c.Stride + j
		want := update(alpha, dot(x, y, i, j, a.N), beta, before.Data[at])
		want.close(t, c.Data[at], a.N, "Symm(%c, %c) %d×%d α=%g β=%g at (%d, %d)", s, a.Uplo, c.Rows, c.Cols, alpha, beta, i, j)
	})
	untouched(t, before, c, allOf)
}

// poisonedSymmetric is a with NaN in the other triangle.
func poisonedSymmetric(a blas64.General, u blas.Uplo) blas64.Symmetric {
	poison(a, u, false)
	return asSymmetric(a, u)
}

func TestSymm(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		rnd := source(1)
		for range 300 {
			m, n := size(rnd), size(rnd)
			s, order := blas.Left, m
			if rnd.IntN(2) == 0 {
				s, order = blas.Right, n
			}
			a := poisonedSymmetric(general(rnd, order, order, rnd.IntN(3)), pick(rnd, uplos...))
			checkSymm(t, s, pick(rnd, alphas...), a, general(rnd, m, n, rnd.IntN(3)), pick(rnd, betas...), general(rnd, m, n, rnd.IntN(3)))
		}
		for _, s := range sides {
			for _, u := range uplos {
				m, n := 2*depth+9, 40
				if s == blas.Right {
					m, n = n, m
				}
				a := poisonedSymmetric(general(rnd, max(m, n), max(m, n), 1), u)
				checkSymm(t, s, 1, a, general(rnd, m, n, 0), 1, general(rnd, m, n, 0))
			}
		}
	})
}

// Symm has the bits of Gemm on the mirrored matrix, also for the few vectors that do not
// go through packed operands.
func TestSymmBits(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		rnd := source(2)
		for _, size := range []struct{ n, vectors int }{
			{230, 230}, {2*depth + 57, 1}, {2 * depth, 2}, {3*depth + 1, narrowCols}, {2*depth + 57, narrowCols + 1},
		} {
			n := size.n
			full := general(rnd, n, n, 0)
			for i := range n {
				for j := range i {
					full.Data[i*n+j] = full.Data[j*n+i]
				}
			}
			for _, s := range sides {
				rows, cols := n, size.vectors
				if s == blas.Right {
					rows, cols = cols, rows
				}
				b, c := general(rnd, rows, cols, 1), general(rnd, rows, cols, 2)
				for _, scale := range []struct{ alpha, beta float64 }{{1, 1}, {-1, 0}, {.3, -.7}} {
					want := clone(c)
					if s == blas.Left {
						Gemm1(blas.NoTrans, blas.NoTrans, scale.alpha, full, b, scale.beta, want)
					} else {
						Gemm1(blas.NoTrans, blas.NoTrans, scale.alpha, b, full, scale.beta, want)
					}
					for _, u := range uplos {
						a := poisonedSymmetric(clone(full), u)
						for _, procs := range []int{1, 2, 7} {
							got := clone(c)
							withProcs(procs, func() { Symm(s, scale.alpha, a, b, scale.beta, got) })
							sameBits(t, "Symm", got.Data, want.Data)
						}
					}
				}
			}
		}
	})
}

// y = α A x + β y reads one triangle of A.
func TestSymv(t *testing.T) {
	for seed := range uint64(300) {
		rnd := source(seed)
		n, uplo := 1+rnd.IntN(60), pick(rnd, blas.Upper, blas.Lower)
		g := general(rnd, n, n, rnd.IntN(3))
		poison(g, uplo, false)
		a := blas64.Symmetric{N: n, Stride: g.Stride, Data: g.Data, Uplo: uplo}
		x, y := general(rnd, 1, n, 0).Data, general(rnd, 1, n, 0).Data
		alpha, beta := pick(rnd, 1, -1, 0.3), pick(rnd, 0, 1, -0.7)
		if beta == 0 {
			y[0] = math.NaN()
		}
		got := append([]float64(nil), y...)
		Symv(alpha, a, blas64.Vector{N: n, Inc: 1, Data: x}, beta, blas64.Vector{N: n, Inc: 1, Data: got})
		for i := range n {
			want := dot(symmetric(a), func(p, _ int) float64 { return x[p] }, i, 0, n)
			update(alpha, want, beta, y[i]).close(t, got[i], n, "seed %d, element %d", seed, i)
		}
	}
}

// op(A) times the solution is b.
func TestTrsv(t *testing.T) {
	for seed := range uint64(300) {
		rnd := source(seed)
		n, uplo := 1+rnd.IntN(60), pick(rnd, blas.Upper, blas.Lower)
		trans, diag := pick(rnd, blas.NoTrans, blas.Trans), pick(rnd, blas.NonUnit, blas.Unit)
		g := general(rnd, n, n, rnd.IntN(3))
		for i := range n {
			for j := range n {
				g.Data[i*g.Stride+j] /= float64(n)
			}
			g.Data[i*g.Stride+i] = 1 + rnd.Float64()
		}
		poison(g, uplo, diag == blas.Unit)
		a := blas64.Triangular{N: n, Stride: g.Stride, Data: g.Data, Uplo: uplo, Diag: diag}
		b := general(rnd, 1, n, 0).Data
		x := append([]float64(nil), b...)
		Trsv(trans, a, blas64.Vector{N: n, Inc: 1, Data: x})
		for i := range n {
			got := dot(triangular(trans, a), func(p, _ int) float64 { return x[p] }, i, 0, n)
			entry{b[i], got.size + math.Abs(b[i])}.close(t, got.value, 4*n, "seed %d, row %d", seed, i)
		}
	}
}

func BenchmarkLevel2(b *testing.B) {
	for _, n := range []int{300, 3000} {
		g, x := general(source(1), n, n, 0), general(source(2), 1, n, 0).Data
		y := make([]float64, n)
		for i := range n {
			g.Data[i*n+i] = float64(n)
		}
		b.Run(fmt.Sprintf("symv/n=%d", n), func(b *testing.B) {
			b.SetBytes(4 * int64(n) * int64(n))
			for b.Loop() {
				Symv(1, blas64.Symmetric{N: n, Stride: n, Data: g.Data, Uplo: blas.Lower}, blas64.Vector{N: n, Inc: 1, Data: x}, 0, blas64.Vector{N: n, Inc: 1, Data: y})
			}
		})
		for _, trans := range []blas.Transpose{blas.NoTrans, blas.Trans} {
			b.Run(fmt.Sprintf("trsv/n=%d/trans=%c", n, trans), func(b *testing.B) {
				b.SetBytes(4 * int64(n) * int64(n))
				for b.Loop() {
					copy(y, x)
					Trsv(trans, blas64.Triangular{N: n, Stride: n, Data: g.Data, Uplo: blas.Upper, Diag: blas.NonUnit}, blas64.Vector{N: n, Inc: 1, Data: y})
				}
			})
		}
	}
}
