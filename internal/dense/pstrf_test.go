package dense

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack/lapack64"
)

// semidefinite is a random positive semidefinite matrix of the given rank with NaN in
// the triangle that is not u. Its rows repeat where g has fewer rows.
func semidefinite(rnd *rand.Rand, n, rank, distinct, pad int, u blas.Uplo) blas64.General {
	a, g := general(rnd, n, n, pad), general(rnd, n, rank, 0)
	for i := distinct; i < n; i++ {
		copy(g.Data[i*rank:(i+1)*rank], g.Data[i%distinct*rank:])
	}
	Gemm(blas.NoTrans, blas.Trans, 1, g, g, 0, a)
	poison(a, u, false)
	return a
}

// checkPstrf checks PᵀAP = LLᵀ within 1e-12 of the largest diagonal element, that the
// diagonal of L descends, and that no element outside the triangle is written. It
// returns the pivots and the factor.
func checkPstrf(t *testing.T, a blas64.General, u blas.Uplo, tol float64, rank int) (piv []int, tri blas64.Triangular) {
	t.Helper()
	n := a.Rows
	before, largest := clone(a), 0.0
	for i := range n {
		largest = max(largest, a.Data[i*a.Stride+i])
	}
	piv = make([]int, n)
	tri, got := Pstrf(asSymmetric(a, u), piv, tol)
	if got != rank {
		t.Fatalf("Pstrf(%c) n=%d: rank %d, want %d", u, n, got, rank)
	}
	if tri.Uplo != u || tri.Diag != blas.NonUnit || tri.N != n || tri.Stride != a.Stride {
		t.Fatalf("Pstrf(%c) returned a triangle %c %c of order %d", u, tri.Uplo, tri.Diag, tri.N)
	}
	sorted := slices.Clone(piv)
	slices.Sort(sorted)
	for i, p := range sorted {
		if p != i {
			t.Fatalf("Pstrf(%c) n=%d: %v is no permutation", u, n, piv)
		}
	}
	for i := 1; i < rank; i++ {
		if d, e := a.Data[(i-1)*(a.Stride+1)], a.Data[i*(a.Stride+1)]; !(e <= d*(1+1e-12)) {
			t.Fatalf("Pstrf(%c) n=%d: pivot %d is √%g after √%g", u, n, i, e*e, d*d)
		}
	}
	l, r, whole := triangular(blas.NoTrans, tri), triangular(blas.Trans, tri), symmetric(asSymmetric(before, u))
	if u == blas.Upper {
		l, r = r, l
	}
	every(n, n, rank, func(i, j int) {
		if e := dot(l, r, i, j, min(i, j, rank-1)+1).value - whole(piv[i], piv[j]); !(math.Abs(e) <= 1e-12*largest) {
			t.Fatalf("Pstrf(%c) n=%d at (%d, %d): differs by %g", u, n, i, j, e)
		}
	})
	untouched(t, before, a, func(i, j int) bool { return inTriangle(u, i, j) })
	return piv, tri
}

// The rank and the pivots are those of gonum, and the factor is within rounding. The
// pivots of these matrices are far apart compared to rounding.
func TestPstrfAgainstGonum(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		rnd := source(11)
		check := func(n, rank int) {
			for _, u := range uplos {
				a := semidefinite(rnd, n, rank, n, n%3, u)
				want, wantPiv := clone(a), make([]int, n)
				tol := 1e-10 * float64(rank)
				_, wantRank, _ := lapack64.Pstrf(asSymmetric(want, u), wantPiv, tol, make([]float64, 2*n))
				piv, got := checkPstrf(t, a, u, tol, min(n, rank))
				if wantRank != min(n, rank) || !slices.Equal(piv[:wantRank], wantPiv[:wantRank]) {
					t.Fatalf("Pstrf(%c) n=%d rank=%d: pivots %v, gonum %v", u, n, rank, piv, wantPiv[:wantRank])
				}
				for i := range n {
					for j := range n {
						// Behind the pivots gonum's order of the rows may be another.
						if !inTriangle(u, i, j) || max(i, j) >= wantRank {
							continue
						}
						x, y := got.Data[i*got.Stride+j], want.Data[i*want.Stride+j]
						if !(math.Abs(x-y) <= 1e-8*(1+math.Abs(y))) {
							t.Fatalf("Pstrf(%c) n=%d rank=%d at (%d, %d): %g, gonum %g", u, n, rank, i, j, x, y)
						}
					}
				}
			}
		}
		for n := 1; n < 2*pivotBlock; n += 7 {
			check(n, n+2)
			check(n, 1+n/2)
		}
		for _, n := range []int{pivotBlock - 1, pivotBlock, pivotBlock + 1, 2*pivotBlock - 1, 2 * pivotBlock, 2*pivotBlock + 1, 3*pivotBlock + 5} {
			for _, rank := range []int{1, pivotBlock - 1, pivotBlock, pivotBlock + 1, n + 2} {
				check(n, rank)
			}
		}
	})
}

// Rows that repeat count once, and the first of them is the pivot.
func TestPstrfRepeatedRows(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		rnd := source(12)
		for _, u := range uplos {
			for _, distinct := range []int{1, 5, pivotBlock, pivotBlock + 3} {
				n := 3*distinct + 1
				piv, _ := checkPstrf(t, semidefinite(rnd, n, distinct+2, distinct, 0, u), u, 1e-9, distinct)
				of := make(map[int]bool)
				for _, p := range piv[:distinct] {
					of[p%distinct] = true
				}
				if len(of) != distinct {
					t.Fatalf("Pstrf(%c): %d of %d distinct rows are pivots", u, len(of), distinct)
				}
			}
			ones := blas64.General{Rows: 5, Cols: 5, Stride: 5, Data: slices.Repeat([]float64{1}, 25)}
			if piv, _ := checkPstrf(t, ones, u, -1, 1); piv[0] != 0 {
				t.Fatalf("Pstrf(%c): the first of equal pivots is %d", u, piv[0])
			}
		}
	})
}

func TestPstrfSmall(t *testing.T) {
	for _, u := range uplos {
		checkPstrf(t, blas64.General{Stride: 1}, u, 0, 0)
		for v, rank := range map[float64]int{4: 1, 0: 0, -1: 0, 1e-300: 1, math.NaN(): 0, math.Inf(-1): 0} {
			a := blas64.Symmetric{N: 1, Stride: 1, Data: []float64{v}, Uplo: u}
			if _, got := Pstrf(a, make([]int, 1), -1); got != rank {
				t.Errorf("rank of %g is %d", v, got)
			} else if rank == 1 && a.Data[0] != math.Sqrt(v) {
				t.Errorf("root of %g is %g", v, a.Data[0])
			}
		}
		for _, n := range []int{2, pivotBlock + 1} {
			zero := general(source(1), n, n, 1)
			for i := range zero.Data {
				zero.Data[i] = 0
			}
			for _, tol := range []float64{-1, 0, 1} {
				checkPstrf(t, zero, u, tol, 0)
			}
		}
	}
}

// diagonalMatrix has NaN in the triangle that is not u.
func diagonalMatrix(u blas.Uplo, d ...float64) blas64.General {
	n := len(d)
	a := blas64.General{Rows: n, Cols: n, Stride: n, Data: make([]float64, n*n)}
	for i, v := range d {
		a.Data[i*n+i] = v
	}
	poison(a, u, false)
	return a
}

// A pivot that is not above the tolerance is left out, also the first.
func TestPstrfTolerance(t *testing.T) {
	d := make([]float64, 3*pivotBlock)
	for i := range d {
		d[i] = float64((i*7 + 3) % len(d)) // all numbers from 0 on, once
	}
	for _, u := range uplos {
		for _, tol := range []float64{-1, 0, 1, 1.5, pivotBlock, 2 * pivotBlock, float64(len(d) - 2), float64(len(d) - 1), float64(len(d))} {
			piv := make([]int, len(d))
			want := len(d) - 1 - int(max(0, min(tol, float64(len(d)-1))))
			_, rank := Pstrf(asSymmetric(diagonalMatrix(u, d...), u), piv, tol)
			if rank != want {
				t.Fatalf("Pstrf(%c): %d pivots above %g, want %d", u, rank, tol, want)
			}
			for i, p := range piv[:rank] {
				if d[p] != float64(len(d)-1-i) {
					t.Fatalf("Pstrf(%c): pivot %d is %g", u, i, d[p])
				}
			}
		}
		// eps of 3 · 2⁵³ is 3, times the order 2 is 6.
		for v, rank := range map[float64]int{5: 1, 6: 1, 7: 2} {
			if _, got := Pstrf(asSymmetric(diagonalMatrix(u, v, 0x3p53), u), make([]int, 2), -1); got != rank {
				t.Errorf("Pstrf(%c): rank %d with a pivot %g", u, got, v)
			}
		}
	}
}

// The factorization ends at a NaN on the diagonal, wherever it is, and what was
// factored before holds.
func TestPstrfNotFinite(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		rnd := source(13)
		for _, n := range []int{1, 5, pivotBlock, 2*pivotBlock + 3} {
			for _, u := range uplos {
				good := definite(rnd, n, 0, u)
				for _, at := range []int{0, n / 2, n - 1} {
					a := clone(good)
					a.Data[at*n+at] = math.NaN()
					if _, rank := Pstrf(asSymmetric(a, u), make([]int, n), 0); rank != 0 {
						t.Fatalf("Pstrf(%c) n=%d: rank %d with a NaN on the diagonal at %d", u, n, rank, at)
					}
					a = clone(good)
					a.Data[at*n+at] = math.Inf(1)
					piv := make([]int, n)
					if _, rank := Pstrf(asSymmetric(a, u), piv, 0); rank == 0 || piv[0] != at || !math.IsInf(a.Data[0], 1) {
						t.Fatalf("Pstrf(%c) n=%d: Inf on the diagonal at %d is not the first pivot", u, n, at)
					}
				}
				if n < 2 {
					continue
				}
				a := clone(good)
				a.Data[n-1], a.Data[(n-1)*n] = math.NaN(), math.NaN()
				if _, rank := Pstrf(asSymmetric(a, u), make([]int, n), 0); rank == n {
					t.Fatalf("Pstrf(%c) n=%d: NaN off the diagonal is accepted", u, n)
				}
			}
		}
	})
}

func TestPstrfBits(t *testing.T) {
	check := func(a blas64.General, u blas.Uplo, tol float64, rank int) {
		n := a.Rows
		want, wantPiv := clone(a), make([]int, n)
		withProcs(1, func() {
			if _, got := Pstrf(asSymmetric(want, u), wantPiv, tol); got != rank {
				t.Fatal(got)
			}
		})
		for _, procs := range []int{1, 2, 7} {
			got, piv := clone(a), make([]int, n)
			withProcs(procs, func() { Pstrf(asSymmetric(got, u), piv, tol) })
			sameBits(t, "Pstrf", got.Data, want.Data)
			if !slices.Equal(piv, wantPiv) {
				t.Fatalf("Pstrf(%c): the pivots depend on the processors", u)
			}
		}
	}
	eachISA(t, func(t *testing.T) {
		for _, u := range uplos {
			check(definite(source(14), 5*pivotBlock+3, 0, u), u, 0, 5*pivotBlock+3)
		}
	})
	// So long that columns are shared too.
	const n, rank = 2*pivotRows + 300, pivotBlock + 6
	if workersFor(8*float64((pivotBlock-1)*(n-pivotBlock)), 2) < 2 {
		t.Fatal("columns are too short to be shared")
	}
	check(semidefinite(source(15), n, rank, n, 0, blas.Lower), blas.Lower, 1e-8, rank)
}
