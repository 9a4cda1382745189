package dense

import (
	"testing"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
)

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
