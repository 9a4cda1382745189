package dense

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
)

// definite is a random positive definite matrix with NaN in the triangle that
// is not u.
func definite(rnd *rand.Rand, n, pad int, u blas.Uplo) blas64.General {
	a, g := general(rnd, n, n, pad), general(rnd, n, n+2, 0)
	Gemm(blas.NoTrans, blas.Trans, 1, g, g, 0, a)
	poison(a, u, false)
	return a
}

// checkPotrf checks |LLᵀ − A| ≤ (n+1)·eps·|L| |Lᵀ| [Higham, theorem 10.3].
func checkPotrf(t *testing.T, a blas64.General, u blas.Uplo) {
	t.Helper()
	before := clone(a)
	tri, ok := Potrf(asSymmetric(a, u))
	if !ok {
		t.Fatalf("Potrf(%c) n=%d: not positive definite", u, a.Rows)
	}
	if tri.Uplo != u || tri.Diag != blas.NonUnit || tri.N != a.Rows || tri.Stride != a.Stride {
		t.Fatalf("Potrf(%c) returned a triangle %c %c of order %d", u, tri.Uplo, tri.Diag, tri.N)
	}
	l, r := triangular(blas.NoTrans, tri), triangular(blas.Trans, tri)
	if u == blas.Upper {
		l, r = r, l
	}
	every(a.Rows, a.Cols, a.Rows, func(i, j int) {
		if inTriangle(u, i, j) {
			dot(l, r, i, j, min(i, j)+1).close(t, before.Data[i*a.Stride+j], a.Rows, "Potrf(%c) n=%d at (%d, %d)", u, a.Rows, i, j)
		}
	})
	untouched(t, before, a, func(i, j int) bool { return inTriangle(u, i, j) })
}

func TestPotrf(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		rnd := source(1)
		for _, u := range uplos {
			for n := range 70 {
				checkPotrf(t, definite(rnd, n, n%3, u), u)
			}
			for _, n := range []int{100, 129, 257, 2*depth + 9} {
				checkPotrf(t, definite(rnd, n, 1, u), u)
			}
		}
	})
}

// One buffer of n rows and n+1 columns holds a symmetric matrix in its lower
// triangle and a factor above the diagonal, shifted by one column.
func TestPotrfBesideAnother(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		rnd := source(2)
		const n = 150
		k, f := definite(rnd, n, 0, blas.Lower), definite(rnd, n, 0, blas.Upper)
		both := general(rnd, n, n+1, 0)
		for i := range n {
			copy(both.Data[i*(n+1):], k.Data[i*n:i*n+i+1])
			copy(both.Data[i*(n+1)+i+1:], f.Data[i*n+i:(i+1)*n])
		}
		lower := blas64.Symmetric{N: n, Stride: n + 1, Data: both.Data, Uplo: blas.Lower}
		upper := blas64.Symmetric{N: n, Stride: n + 1, Data: both.Data[1:], Uplo: blas.Upper}
		if _, ok := Potrf(upper); !ok {
			t.Fatal("not positive definite")
		}
		for i := range n {
			sameBits(t, "the other triangle", both.Data[i*(n+1):i*(n+1)+i+1], k.Data[i*n:i*n+i+1])
		}
		b, want := general(rnd, n, 20, 0), general(rnd, n, 20, 0)
		got := clone(want)
		Symm(blas.Left, 1, asSymmetric(k, blas.Lower), b, 1, want)
		Symm(blas.Left, 1, lower, b, 1, got)
		sameBits(t, "Symm beside a factor", got.Data, want.Data)
	})
}

func TestPotrfNotDefinite(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		rnd := source(3)
		for _, n := range []int{1, 5, 40, 64, 65, 300} {
			for _, u := range uplos {
				good := definite(rnd, n, 0, u)
				for _, bad := range []float64{0, -1, math.NaN(), math.Inf(-1)} {
					for _, at := range []int{0, n / 2, n - 1} {
						a := clone(good)
						a.Data[at*n+at] = bad
						if _, ok := Potrf(asSymmetric(a, u)); ok {
							t.Fatalf("Potrf(%c) n=%d: %g on the diagonal at %d is accepted", u, n, bad, at)
						}
					}
				}
				if n < 2 {
					continue
				}
				a := clone(good)
				a.Data[n-1], a.Data[(n-1)*n] = math.NaN(), math.NaN()
				if _, ok := Potrf(asSymmetric(a, u)); ok {
					t.Fatalf("Potrf(%c) n=%d: NaN off the diagonal is accepted", u, n)
				}
			}
		}
	})
}

func TestPotrfBits(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		rnd := source(4)
		for _, u := range uplos {
			a := definite(rnd, 2*depth+8, 0, u)
			want := clone(a)
			Potrf1(asSymmetric(want, u))
			for _, procs := range []int{1, 2, 7} {
				got := clone(a)
				withProcs(procs, func() { Potrf(asSymmetric(got, u)) })
				sameBits(t, "Potrf", got.Data, want.Data)
			}
		}
	})
}
