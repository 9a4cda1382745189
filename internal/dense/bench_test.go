package dense

import (
	"fmt"
	"testing"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack/lapack64"
)

// The benchmarks run every kernel set and gonum on the same operands, and
// report GF/s. Compare them within one run:
//
//	go test -bench 'Gemm/n=2000' ./internal/dense

// benchmark times ours with every kernel set and theirs.
func benchmark(b *testing.B, name string, flops float64, ours, theirs func()) {
	defer func(s isa) { active = s }(active)
	run := func(impl string, f func()) {
		b.Run(name+"/impl="+impl, func(b *testing.B) {
			for b.Loop() {
				f()
			}
			b.ReportMetric(flops*float64(b.N)/b.Elapsed().Seconds()/1e9, "GF/s")
		})
	}
	for _, s := range isas() {
		active = s
		run(s.String(), ours)
	}
	run("gonum", theirs)
}

func BenchmarkGemm(b *testing.B) {
	rnd := source(1)
	for _, s := range []struct {
		name    string
		m, n, k int
	}{
		{"n=8", 8, 8, 8}, {"n=32", 32, 32, 32}, {"n=100", 100, 100, 100}, {"n=300", 300, 300, 300},
		{"n=1000", 1000, 1000, 1000}, {"n=2000", 2000, 2000, 2000},
		{"batch=64,in=25,out=10", 64, 10, 25}, {"batch=256,in=25,out=128", 256, 128, 25},
		{"batch=256,in=784,out=32", 256, 32, 784}, {"m=3000,n=3000,k=128", 3000, 3000, 128},
	} {
		x, y, z := general(rnd, s.m, s.k, 0), general(rnd, s.k, s.n, 0), general(rnd, s.m, s.n, 0)
		benchmark(b, s.name, 2*float64(s.m)*float64(s.n)*float64(s.k),
			func() { Gemm(blas.NoTrans, blas.NoTrans, 1, x, y, 0, z) },
			func() { blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, x, y, 0, z) })
	}
}

// The cross-kernel of an example with 2000 rows and its likes: few rows, whose right factor is as it lies in memory.
func BenchmarkGemmFlat(b *testing.B) {
	rnd := source(1)
	for _, m := range []int{1, 4, 10, 24, 48} {
		n, k := 2000, 2572
		x, y, z := general(rnd, m, k, 0), general(rnd, n, k, 0), general(rnd, m, n, 0)
		benchmark(b, fmt.Sprintf("m=%d,n=%d,k=%d", m, n, k), 2*float64(m)*float64(n)*float64(k),
			func() { Gemm(blas.NoTrans, blas.Trans, 1, x, y, 0, z) },
			func() { blas64.Gemm(blas.NoTrans, blas.Trans, 1, x, y, 0, z) })
	}
}

func BenchmarkSyrk(b *testing.B) {
	rnd := source(1)
	for _, n := range []int{300, 1000, 2000} {
		x, z := general(rnd, n, n, 0), asSymmetric(general(rnd, n, n, 0), blas.Lower)
		benchmark(b, fmt.Sprintf("n=%d", n), cube(n),
			func() { Syrk(blas.NoTrans, 1, x, 0, z) },
			func() { blas64.Syrk(blas.NoTrans, 1, x, 0, z) })
	}
}

// A few vectors: the product is bound by reading the triangle.
func BenchmarkSymmNarrow(b *testing.B) {
	rnd := source(1)
	for _, n := range []int{1000, 4000} {
		a := asSymmetric(general(rnd, n, n, 0), blas.Upper)
		for _, rows := range []int{1, 2, 4, 8, 16} {
			x, y := general(rnd, rows, n, 0), general(rnd, rows, n, 0)
			benchmark(b, fmt.Sprintf("n=%d,rows=%d", n, rows), 2*float64(n*n*rows),
				func() { Symm(blas.Right, 1, a, x, 0, y) },
				func() { blas64.Symm(blas.Right, 1, a, x, 0, y) })
		}
	}
}

func BenchmarkTrsm(b *testing.B) {
	rnd := source(1)
	for _, n := range []int{100, 300, 1000, 2000} {
		a, y := triangle(rnd, n, 0, blas.Lower, blas.NonUnit), general(rnd, n, n, 0)
		x := clone(y)
		benchmark(b, fmt.Sprintf("n=%d", n), cube(n),
			func() { copy(x.Data, y.Data); Trsm(blas.Left, blas.NoTrans, 1, a, x) },
			func() { copy(x.Data, y.Data); blas64.Trsm(blas.Left, blas.NoTrans, 1, a, x) })
	}
}

// Few right-hand sides: the solve is bound by reading the triangle.
func BenchmarkTrsmNarrow(b *testing.B) {
	rnd := source(1)
	const n = 2000
	a := triangle(rnd, n, 0, blas.Lower, blas.NonUnit)
	for _, cols := range []int{1, 10} {
		y := general(rnd, n, cols, 0)
		x := clone(y)
		benchmark(b, fmt.Sprintf("n=%d,cols=%d", n, cols), float64(n*n*cols),
			func() { copy(x.Data, y.Data); Trsm(blas.Left, blas.Trans, 1, a, x) },
			func() { copy(x.Data, y.Data); blas64.Trsm(blas.Left, blas.Trans, 1, a, x) })
	}
}

func BenchmarkPotrf(b *testing.B) {
	rnd := source(1)
	for _, n := range []int{32, 100, 300, 1000, 3000} {
		good := definite(rnd, n, 0, blas.Lower)
		a := clone(good)
		benchmark(b, fmt.Sprintf("n=%d", n), cube(n)/3,
			func() { copy(a.Data, good.Data); Potrf(asSymmetric(a, blas.Lower)) },
			func() { copy(a.Data, good.Data); lapack64.Potrf(asSymmetric(a, blas.Lower)) })
	}
}

// The matrices are J Jᵀ of full rank, so that all pivots are taken.
func BenchmarkPstrf(b *testing.B) {
	rnd := source(1)
	for _, n := range []int{100, 500, 2000} {
		good := definite(rnd, n, 0, blas.Lower)
		a, piv, work := clone(good), make([]int, n), make([]float64, 2*n)
		benchmark(b, fmt.Sprintf("n=%d", n), cube(n)/3,
			func() { copy(a.Data, good.Data); Pstrf(asSymmetric(a, blas.Lower), piv, 0) },
			func() { copy(a.Data, good.Data); lapack64.Pstrf(asSymmetric(a, blas.Lower), piv, 0, work) })
	}
}

func cube(n int) float64 { return float64(n) * float64(n) * float64(n) }
