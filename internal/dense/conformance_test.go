package dense

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/blas/gonum"
	"gonum.org/v1/gonum/blas/testblas"
)

// flat gives the package the interface that gonum's tests of BLAS take.
type flat struct{ gonum.Implementation }

func matrixOf(t blas.Transpose, rows, cols int, data []float64, ld int) blas64.General {
	rows, cols = transposedShape(t, rows, cols)
	return blas64.General{Rows: rows, Cols: cols, Stride: ld, Data: data}
}

func (flat) Dgemm(tA, tB blas.Transpose, m, n, k int, alpha float64, a []float64, lda int, b []float64, ldb int, beta float64, c []float64, ldc int) {
	Gemm(tA, tB, alpha, matrixOf(tA, m, k, a, lda), matrixOf(tB, k, n, b, ldb), beta, matrixOf(blas.NoTrans, m, n, c, ldc))
}

func (flat) Dsyrk(ul blas.Uplo, tA blas.Transpose, n, k int, alpha float64, a []float64, lda int, beta float64, c []float64, ldc int) {
	Syrk(tA, alpha, matrixOf(tA, n, k, a, lda), beta, blas64.Symmetric{N: n, Stride: ldc, Data: c, Uplo: ul})
}

func (flat) Dsymm(s blas.Side, ul blas.Uplo, m, n int, alpha float64, a []float64, lda int, b []float64, ldb int, beta float64, c []float64, ldc int) {
	order := m
	if s == blas.Right {
		order = n
	}
	Symm(s, alpha, blas64.Symmetric{N: order, Stride: lda, Data: a, Uplo: ul}, matrixOf(blas.NoTrans, m, n, b, ldb), beta, matrixOf(blas.NoTrans, m, n, c, ldc))
}

func (flat) Dtrsm(s blas.Side, ul blas.Uplo, tA blas.Transpose, d blas.Diag, m, n int, alpha float64, a []float64, lda int, b []float64, ldb int) {
	order := m
	if s == blas.Right {
		order = n
	}
	Trsm(s, tA, alpha, blas64.Triangular{N: order, Stride: lda, Data: a, Uplo: ul, Diag: d}, matrixOf(blas.NoTrans, m, n, b, ldb))
}

func TestConformance(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		testblas.TestDgemm(t, flat{})
		testblas.DsyrkTest(t, flat{})
		testblas.DsymmTest(t, flat{})
		testblas.DtrsmTest(t, flat{})
	})
}

// On random arguments the results are those of gonum. Sums of at most 120
// products of normal numbers differ by less than 1e-12, and the triangles are
// well conditioned.
func TestAgainstGonum(t *testing.T) {
	const tolerance = 1e-12
	eachISA(t, func(t *testing.T) {
		rnd := source(1)
		var theirs gonum.Implementation
		var ours flat
		for range 60 {
			m, n, k := 1+rnd.IntN(120), 1+rnd.IntN(120), 1+rnd.IntN(120)
			side, uplo, diag := pick(rnd, sides...), pick(rnd, uplos...), pick(rnd, diags...)
			tA, tB := pick(rnd, transposes...), pick(rnd, transposes...)
			alpha, beta := pick(rnd, alphas...), pick(rnd, betas...)
			ar, ac := transposedShape(tA, m, k)
			br, bc := transposedShape(tB, k, n)
			a, b, c := general(rnd, ar, ac, 1), general(rnd, br, bc, 2), general(rnd, m, n, 1)
			d := clone(c)
			ours.Dgemm(tA, tB, m, n, k, alpha, a.Data, a.Stride, b.Data, b.Stride, beta, c.Data, c.Stride)
			theirs.Dgemm(tA, tB, m, n, k, alpha, a.Data, a.Stride, b.Data, b.Stride, beta, d.Data, d.Stride)
			near(t, "Dgemm", c, d, tolerance)

			s := general(rnd, m, m, 1)
			d = clone(s)
			ours.Dsyrk(uplo, tA, m, k, alpha, a.Data, a.Stride, beta, s.Data, s.Stride)
			theirs.Dsyrk(uplo, tA, m, k, alpha, a.Data, a.Stride, beta, d.Data, d.Stride)
			near(t, "Dsyrk", s, d, tolerance)

			order := m
			if side == blas.Right {
				order = n
			}
			s, b = general(rnd, order, order, 1), general(rnd, m, n, 2)
			d = clone(c)
			ours.Dsymm(side, uplo, m, n, alpha, s.Data, s.Stride, b.Data, b.Stride, beta, c.Data, c.Stride)
			theirs.Dsymm(side, uplo, m, n, alpha, s.Data, s.Stride, b.Data, b.Stride, beta, d.Data, d.Stride)
			near(t, "Dsymm", c, d, tolerance)

			r := triangle(rnd, order, 1, uplo, diag)
			d = clone(b)
			ours.Dtrsm(side, uplo, tA, diag, m, n, alpha, r.Data, r.Stride, b.Data, b.Stride)
			theirs.Dtrsm(side, uplo, tA, diag, m, n, alpha, r.Data, r.Stride, d.Data, d.Stride)
			near(t, "Dtrsm", b, d, tolerance)
		}
	})
}

// near fails unless the elements of a and b are within the tolerance of each
// other, relative to the larger of 1 and their size.
func near(t *testing.T, what string, a, b blas64.General, tolerance float64) {
	t.Helper()
	for i := range a.Rows {
		for j := range a.Cols {
			x, y := a.Data[i*a.Stride+j], b.Data[i*b.Stride+j]
			if !(math.Abs(x-y) <= tolerance*max(1, math.Abs(y))) {
				t.Fatalf("%s %d×%d at (%d, %d): %g, gonum %g", what, a.Rows, a.Cols, i, j, x, y)
			}
		}
	}
}

// counting is another implementation in gonum's blas64.
type counting struct {
	gonum.Implementation
	gemm, syrk, symm, trsm *int
}

func (c counting) Dgemm(tA, tB blas.Transpose, m, n, k int, alpha float64, a []float64, lda int, b []float64, ldb int, beta float64, x []float64, ldx int) {
	*c.gemm++
	c.Implementation.Dgemm(tA, tB, m, n, k, alpha, a, lda, b, ldb, beta, x, ldx)
}

func (c counting) Dsyrk(ul blas.Uplo, tA blas.Transpose, n, k int, alpha float64, a []float64, lda int, beta float64, x []float64, ldx int) {
	*c.syrk++
	c.Implementation.Dsyrk(ul, tA, n, k, alpha, a, lda, beta, x, ldx)
}

func (c counting) Dsymm(s blas.Side, ul blas.Uplo, m, n int, alpha float64, a []float64, lda int, b []float64, ldb int, beta float64, x []float64, ldx int) {
	*c.symm++
	c.Implementation.Dsymm(s, ul, m, n, alpha, a, lda, b, ldb, beta, x, ldx)
}

func (c counting) Dtrsm(s blas.Side, ul blas.Uplo, tA blas.Transpose, d blas.Diag, m, n int, alpha float64, a []float64, lda int, b []float64, ldb int) {
	*c.trsm++
	c.Implementation.Dtrsm(s, ul, tA, d, m, n, alpha, a, lda, b, ldb)
}

// An implementation that the caller has put into blas64 does the work.
func TestForeign(t *testing.T) {
	var gemm, syrk, symm, trsm int
	own := blas64.Implementation()
	blas64.Use(counting{gemm: &gemm, syrk: &syrk, symm: &symm, trsm: &trsm})
	defer blas64.Use(own)
	rnd := source(1)
	checkGemm(t, blas.NoTrans, blas.Trans, 1, general(rnd, 9, 8, 1), general(rnd, 7, 8, 0), 1, general(rnd, 9, 7, 0))
	checkSyrk(t, blas.NoTrans, 1, general(rnd, 9, 8, 1), 1, general(rnd, 9, 9, 0), blas.Lower)
	checkSymm(t, blas.Left, 1, poisonedSymmetric(general(rnd, 9, 9, 0), blas.Lower), general(rnd, 9, 7, 0), 1, general(rnd, 9, 7, 0))
	checkTrsm(t, blas.Left, blas.NoTrans, 1, triangle(rnd, 9, 0, blas.Lower, blas.NonUnit), general(rnd, 9, 7, 0))
	if gemm != 1 || syrk != 1 || symm != 1 || trsm != 1 {
		t.Errorf("called %d, %d, %d and %d times", gemm, syrk, symm, trsm)
	}
	a := definite(rnd, 150, 0, blas.Lower)
	syrk, trsm = 0, 0
	checkPotrf(t, a, blas.Lower)
	if syrk == 0 || trsm == 0 {
		t.Error("Potrf does without it")
	}
	syrk = 0
	checkPstrf(t, definite(rnd, 150, 0, blas.Lower), blas.Lower, -1, 150)
	if syrk == 0 {
		t.Error("Pstrf does without it")
	}
}
