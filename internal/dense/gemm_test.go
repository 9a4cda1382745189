package dense

import (
	"context"
	"math"
	"sync"
	"testing"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
)

var (
	transposes = []blas.Transpose{blas.NoTrans, blas.Trans, blas.ConjTrans}
	alphas     = []float64{0, 1, -0.5, 2.5}
	betas      = []float64{0, 1, -0.5}
)

// transposedShape is the shape of A when op(A) is rows × cols.
func transposedShape(t blas.Transpose, rows, cols int) (int, int) {
	if t == blas.NoTrans {
		return rows, cols
	}
	return cols, rows
}

func checkGemm(t *testing.T, tA, tB blas.Transpose, alpha float64, a, b blas64.General, beta float64, c blas64.General) {
	t.Helper()
	before := clone(c)
	Gemm(tA, tB, alpha, a, b, beta, c)
	_, k := dims(tA, a)
	every(c.Rows, c.Cols, k, func(i, j int) {
		at := i*c.Stride + j
		want := update(alpha, dot(op(tA, a), op(tB, b), i, j, k), beta, before.Data[at])
		want.close(t, c.Data[at], k, "Gemm(%c, %c) %d×%d×%d α=%g β=%g at (%d, %d)", tA, tB, c.Rows, c.Cols, k, alpha, beta, i, j)
	})
	untouched(t, before, c, allOf)
}

func TestGemm(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		rnd := source(1)
		for range 400 {
			m, n, k := size(rnd), size(rnd), size(rnd)
			tA, tB := pick(rnd, transposes...), pick(rnd, transposes...)
			ar, ac := transposedShape(tA, m, k)
			br, bc := transposedShape(tB, k, n)
			a, b := general(rnd, ar, ac, rnd.IntN(3)), general(rnd, br, bc, rnd.IntN(3))
			checkGemm(t, tA, tB, pick(rnd, alphas...), a, b, pick(rnd, betas...), general(rnd, m, n, rnd.IntN(3)))
		}
	})
}

// The sums are cut at depth, the packing memory at blockArea, C at blockSize.
func TestGemmLimits(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		rnd := source(2)
		for _, s := range [][3]int{
			{9, 30, depth - 1}, {9, 30, depth}, {9, 30, depth + 1}, {50, 25, 2*depth + 3},
			{200, 250, 30}, {tileRows + 1, tileCols + 1, 2},
			{blockSize + 9, 3, 2}, {3, blockSize + 9, 2},
		} {
			m, n, k := s[0], s[1], s[2]
			for _, tA := range transposes[:2] {
				for _, tB := range transposes[:2] {
					ar, ac := transposedShape(tA, m, k)
					br, bc := transposedShape(tB, k, n)
					checkGemm(t, tA, tB, -0.5, general(rnd, ar, ac, 1), general(rnd, br, bc, 0), 2, general(rnd, m, n, 1))
				}
			}
		}
		k := blockArea/8 + 300
		checkGemm(t, blas.NoTrans, blas.Trans, 1, general(rnd, 3, k, 0), general(rnd, 5, k, 0), 2, general(rnd, 3, 5, 0))
	})
}

// β = 0 overwrites a NaN in C, α = 0 hides one in A, and otherwise a NaN or
// an Inf goes wherever the formula takes it, zeros beside it or not.
func TestGemmNonFinite(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		rnd := source(3)
		for range 100 {
			m, n, k := 1+rnd.IntN(60), 1+rnd.IntN(60), 1+rnd.IntN(20)
			a, b, c := general(rnd, m, k, 1), general(rnd, k, n, 1), general(rnd, m, n, 1)
			for _, x := range []blas64.General{a, b, c} {
				for range 3 {
					x.Data[rnd.IntN(x.Rows)*x.Stride+rnd.IntN(x.Cols)] = pick(rnd, 0, math.NaN(), math.Inf(1), math.Inf(-1))
				}
			}
			checkGemm(t, blas.NoTrans, blas.NoTrans, pick(rnd, alphas...), a, b, pick(rnd, betas...), c)
		}
	})
}

// The bits are those of the serial product for any number of workers, and
// those of any part of the product computed by itself, also where only the part has few rows and is computed transposed.
func TestGemmBits(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		rnd := source(4)
		for _, s := range [][3]int{{200, 210, 300}, {700, 40, 90}, {31, 900, 90}, {60, 500, 700}, {130, 130, 1200}} {
			m, n, k := s[0], s[1], s[2]
			a, b, c := general(rnd, m, k, 0), general(rnd, n, k, 0), general(rnd, m, n, 0)
			want := clone(c)
			Gemm1(blas.NoTrans, blas.Trans, 1.5, a, b, -0.5, want)
			for _, procs := range []int{1, 2, 7} {
				got := clone(c)
				withProcs(procs, func() { Gemm(blas.NoTrans, blas.Trans, 1.5, a, b, -0.5, got) })
				sameBits(t, "Gemm", got.Data, want.Data)
			}
			i, j, part := m/3, n/3, clone(c)
			Gemm(blas.NoTrans, blas.Trans, 1.5, slice(a, i, m, 0, k), slice(b, j, n, 0, k), -0.5, slice(part, i, m, j, n))
			for r := i; r < m; r++ {
				sameBits(t, "part of Gemm", part.Data[r*n+j:(r+1)*n], want.Data[r*n+j:(r+1)*n])
			}
		}
	})
}

func slice(a blas64.General, i0, i1, j0, j1 int) blas64.General {
	return blas64.General{Rows: i1 - i0, Cols: j1 - j0, Stride: a.Stride, Data: a.Data[i0*a.Stride+j0 : (i1-1)*a.Stride+j1]}
}

// Every kernel in assembler does the same operations on an element, whatever its place: one
// fused multiply-add a term, and one a run of depth terms to add them to C.
func TestGemmISABits(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		if active == portable {
			t.Skip("the compiler chooses the operations")
		}
		rnd := source(5)
		for range 30 {
			m, n, k := 1+rnd.IntN(60), 1+rnd.IntN(60), 1+rnd.IntN(2*depth)
			a, b, c := general(rnd, m, k, 0), general(rnd, k, n, 0), general(rnd, m, n, 0)
			want := clone(c)
			for at := range want.Data {
				i, j, beta := at/n, at%n, 0.3
				for p := 0; p < k; p, beta = p+depth, 1 {
					sum := 0.0
					for q := p; q < min(p+depth, k); q++ {
						sum = math.FMA(a.Data[i*k+q], b.Data[q*n+j], sum)
					}
					want.Data[at] = math.FMA(0.7, sum, float64(beta*want.Data[at]))
				}
			}
			Gemm(blas.NoTrans, blas.NoTrans, 0.7, a, b, 0.3, c)
			sameBits(t, "Gemm", c.Data, want.Data)
		}
	})
}

func TestGemmConcurrent(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		rnd := source(6)
		a, b := general(rnd, 150, 140, 0), general(rnd, 140, 160, 0)
		want := general(rnd, 150, 160, 0)
		Gemm1(blas.NoTrans, blas.NoTrans, 1, a, b, 0, want)
		got := make([]blas64.General, 6)
		var wg sync.WaitGroup
		for i := range got {
			got[i] = clone(want)
			wg.Go(func() {
				for range 3 {
					if i%2 == 0 {
						Gemm(blas.NoTrans, blas.NoTrans, 1, a, b, 0, got[i])
					} else {
						Gemm1(blas.NoTrans, blas.NoTrans, 1, a, b, 0, got[i])
					}
				}
			})
		}
		wg.Wait()
		for _, g := range got {
			sameBits(t, "concurrent Gemm", g.Data, want.Data)
		}
	})
}

// A product with an upper triangle has the bits of the product with its zeros.
func TestGemmUpper(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		rnd := source(7)
		for _, s := range [][2]int{{0, 5}, {1, 1}, {3, 9}, {40, 31}, {70, 300}, {9, 2*depth + 30}, {200, 3*depth + 1}, {30, 1600}} {
			a, u := general(rnd, s[0], s[1], 2), general(rnd, s[1], s[1], 1)
			for i := range u.Rows {
				clear(u.Data[i*u.Stride:][:i])
			}
			want, got := general(rnd, s[0], s[1], 1), general(rnd, s[0], s[1], 1)
			Gemm(blas.NoTrans, blas.NoTrans, 1, a, u, 0, want)
			for _, procs := range []int{1, 3} {
				withProcs(procs, func() {
					if err := GemmUpperContext(context.Background(), a, u, got); err != nil {
						t.Fatal(err)
					}
				})
				for i := range s[0] {
					for j := range s[1] {
						if g, w := got.Data[i*got.Stride+j], want.Data[i*want.Stride+j]; g != w {
							t.Fatalf("%d×%d with %d processors, (%d, %d): %v, want %v", s[0], s[1], procs, i, j, g, w)
						}
					}
				}
			}
		}
	})
}

// Four columns are interleaved in either direction, and nothing else is written.
func TestInterleave(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		for seed := range uint64(200) {
			rnd := source(seed)
			n, step := rnd.IntN(20), 4+rnd.IntN(9)
			first := rnd.IntN(3)
			at := first
			if rnd.IntN(2) == 0 && n > 0 {
				at, step = first+(n-1)*step, -step
			}
			from := general(rnd, 4, n, 0)
			row := func(i int) []float64 { return from.Data[i*n : (i+1)*n] }
			if n == 0 {
				row = func(int) []float64 { return nil }
			}
			got := general(rnd, 1, first+n*max(step, -step)+4, 0).Data
			want := append([]float64(nil), got...)
			for q := range n {
				for i := range 4 {
					want[at+q*step+i] = row(i)[q]
				}
			}
			interleave4(got, at, step, row(0), row(1), row(2), row(3))
			sameBits(t, "interleaved", want, got)
		}
	})
}
