package dense

import (
	"testing"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
)

// What runs on the caller's goroutine allocates nothing once the buffers are
// there.
func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector empties sync.Pool at random")
	}
	rnd := source(7)
	const n = 300
	a, c := definite(rnd, n, 0, blas.Lower), general(rnd, n, n, 0)
	l := clone(a)
	tri, _ := Potrf(asSymmetric(l, blas.Lower))
	piv := make([]int, n)
	for name, f := range map[string]func(){
		"Gemm1":  func() { Gemm1(blas.NoTrans, blas.Trans, 1, a, a, 0, c) },
		"Syrk1":  func() { Syrk1(blas.NoTrans, 1, a, 0, asSymmetric(c, blas.Upper)) },
		"trsm":   func() { trsm(blas.Left, blas.NoTrans, 1, tri, c, limit{workers: 1}) },
		"Potrf1": func() { copy(c.Data, a.Data); Potrf1(asSymmetric(c, blas.Lower)) },
		"Pstrf": func() {
			copy(c.Data, a.Data)
			if _, _, err := PstrfContext(t.Context(), asSymmetric(c, blas.Lower), piv, 0); err != nil {
				t.Error(err)
			}
		},
	} {
		if n := testing.AllocsPerRun(20, f); n >= 1 {
			t.Errorf("%s: %g allocations a call", name, n)
		}
	}
}

// The kernels do not check indices, so the arguments must be.
func TestPanics(t *testing.T) {
	m := func(rows, cols, stride, n int) blas64.General {
		return blas64.General{Rows: rows, Cols: cols, Stride: stride, Data: make([]float64, n)}
	}
	sym := blas64.Symmetric{N: 2, Stride: 2, Data: make([]float64, 4), Uplo: blas.Lower}
	tri := blas64.Triangular{N: 2, Stride: 2, Data: make([]float64, 4), Uplo: blas.Lower, Diag: blas.Unit}
	gemm := func(tA blas.Transpose, a, b, c blas64.General) func() {
		return func() { Gemm(tA, blas.NoTrans, 1, a, b, 0, c) }
	}
	for _, c := range []struct {
		name, want string
		f          func()
	}{
		{"inner", badShape, gemm(blas.NoTrans, m(2, 3, 3, 6), m(2, 2, 2, 4), m(2, 2, 2, 4))},
		{"rows", badShape, gemm(blas.NoTrans, m(2, 2, 2, 4), m(2, 2, 2, 4), m(3, 2, 2, 6))},
		{"cols", badShape, gemm(blas.NoTrans, m(2, 2, 2, 4), m(2, 2, 2, 4), m(2, 3, 3, 6))},
		{"transpose", badTranspose, gemm('x', m(2, 2, 2, 4), m(2, 2, 2, 4), m(2, 2, 2, 4))},
		{"stride", badStride, gemm(blas.NoTrans, m(2, 2, 1, 4), m(2, 2, 2, 4), m(2, 2, 2, 4))},
		{"zero stride", badStride, gemm(blas.NoTrans, m(0, 0, 0, 0), m(0, 0, 1, 0), m(0, 0, 1, 0))},
		{"negative", negative, gemm(blas.NoTrans, m(-1, 2, 2, 4), m(2, 2, 2, 4), m(2, 2, 2, 4))},
		{"short A", shortData, gemm(blas.NoTrans, m(2, 2, 3, 4), m(2, 2, 2, 4), m(2, 2, 2, 4))},
		{"short B", shortData, gemm(blas.NoTrans, m(2, 2, 2, 4), m(2, 2, 2, 3), m(2, 2, 2, 4))},
		{"short C", shortData, gemm(blas.NoTrans, m(2, 2, 2, 4), m(2, 2, 2, 4), m(2, 2, 5, 6))},
		{"overflow", shortData, gemm(blas.NoTrans, m(1<<20, 2, 1<<30, 4), m(2, 2, 2, 4), m(1<<20, 2, 2, 4))},
		{"syrk shape", badShape, func() { Syrk(blas.NoTrans, 1, m(3, 2, 2, 6), 0, sym) }},
		{"syrk uplo", badUplo, func() {
			Syrk(blas.NoTrans, 1, m(2, 2, 2, 4), 0, blas64.Symmetric{N: 2, Stride: 2, Data: make([]float64, 4)})
		}},
		{"symm left", badShape, func() { Symm(blas.Left, 1, sym, m(3, 2, 2, 6), 0, m(3, 2, 2, 6)) }},
		{"symm right", badShape, func() { Symm(blas.Right, 1, sym, m(2, 3, 3, 6), 0, m(2, 3, 3, 6)) }},
		{"symm C", badShape, func() { Symm(blas.Left, 1, sym, m(2, 3, 3, 6), 0, m(2, 2, 2, 4)) }},
		{"symm side", badSide, func() { Symm('x', 1, sym, m(2, 2, 2, 4), 0, m(2, 2, 2, 4)) }},
		{"trsm left", badShape, func() { Trsm(blas.Left, blas.NoTrans, 1, tri, m(3, 2, 2, 6)) }},
		{"trsm right", badShape, func() { Trsm(blas.Right, blas.NoTrans, 1, tri, m(2, 3, 3, 6)) }},
		{"trsm side", badSide, func() { Trsm('x', blas.NoTrans, 1, tri, m(2, 2, 2, 4)) }},
		{"trsm diag", badDiag, func() {
			Trsm(blas.Left, blas.NoTrans, 1, blas64.Triangular{N: 2, Stride: 2, Data: make([]float64, 4), Uplo: blas.Lower}, m(2, 2, 2, 4))
		}},
		{"potrf uplo", badUplo, func() { Potrf(blas64.Symmetric{N: 1, Stride: 1, Data: make([]float64, 1)}) }},
		{"pstrf uplo", badUplo, func() { Pstrf(blas64.Symmetric{N: 1, Stride: 1, Data: make([]float64, 1)}, make([]int, 1), 0) }},
		{"pstrf pivots", badPivots, func() { Pstrf(sym, make([]int, 3), 0) }},
		{"pstrf short", shortData, func() {
			Pstrf(blas64.Symmetric{N: 2, Stride: 2, Data: make([]float64, 3), Uplo: blas.Upper}, make([]int, 2), 0)
		}},
		{"potrf short", shortData, func() { Potrf(blas64.Symmetric{N: 2, Stride: 2, Data: make([]float64, 3), Uplo: blas.Upper}) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			defer func() {
				if got := recover(); got != c.want {
					t.Errorf("panic %v, want %q", got, c.want)
				}
			}()
			c.f()
		})
	}
}
