package dense

import (
	"fmt"
	"math"
	"testing"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
)

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
