package dense

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
)

const eps = 0x1p-53

// eachISA runs f as a subtest with every kernel set this machine has. Under the race
// detector it is the first one alone: goroutines are the same for all, and the portable
// one is slow there.
func eachISA(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	defer func(s isa) { active = s }(active)
	sets := isas()
	if raceEnabled {
		sets = sets[:1]
	}
	for _, s := range sets {
		active = s
		t.Run(s.String(), f)
	}
}

// withProcs runs f with GOMAXPROCS n.
func withProcs(n int, f func()) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(n))
	f()
}

// general is a random matrix whose rows are pad elements apart. The padding is
// NaN, and so is the memory before and after.
func general(rnd *rand.Rand, rows, cols, pad int) blas64.General {
	stride := max(1, cols+pad)
	all := make([]float64, rows*stride+8)
	for i := range all {
		all[i] = math.NaN()
	}
	a := blas64.General{Rows: rows, Cols: cols, Stride: stride}
	a.Data = all[4 : 4+max(0, (rows-1)*stride+cols)]
	for i := range rows {
		for j := range cols {
			a.Data[i*stride+j] = rnd.NormFloat64()
		}
	}
	return a
}

func clone(a blas64.General) blas64.General {
	a.Data = append([]float64(nil), a.Data...)
	return a
}

// poison puts NaN on the triangle of a that is not u, and on the diagonal too
// if unit.
func poison(a blas64.General, u blas.Uplo, unit bool) {
	for i := range a.Rows {
		for j := range a.Cols {
			if i == j && unit || !inTriangle(u, i, j) {
				a.Data[i*a.Stride+j] = math.NaN()
			}
		}
	}
}

func inTriangle(u blas.Uplo, i, j int) bool {
	return i == j || (u == blas.Lower) == (j < i)
}

// entry is one number with the sum of the magnitudes that went into it.
type entry struct{ value, size float64 }

// matrix is a function of row and column.
type matrix func(i, j int) float64

func op(t blas.Transpose, a blas64.General) matrix {
	if t == blas.NoTrans {
		return func(i, j int) float64 { return a.Data[i*a.Stride+j] }
	}
	return func(i, j int) float64 { return a.Data[j*a.Stride+i] }
}

func symmetric(a blas64.Symmetric) matrix {
	return func(i, j int) float64 {
		if !inTriangle(a.Uplo, i, j) {
			i, j = j, i
		}
		return a.Data[i*a.Stride+j]
	}
}

// triangular is op(A) with its zeros and its unit diagonal.
func triangular(t blas.Transpose, a blas64.Triangular) matrix {
	return func(i, j int) float64 {
		if t != blas.NoTrans {
			i, j = j, i
		}
		switch {
		case !inTriangle(a.Uplo, i, j):
			return 0
		case i == j && a.Diag == blas.Unit:
			return 1
		}
		return a.Data[i*a.Stride+j]
	}
}

// dot is element (i, j) of A B, with k terms.
func dot(a, b matrix, i, j, k int) (e entry) {
	for p := range k {
		v := a(i, p) * b(p, j)
		e.value += v
		e.size += math.Abs(v)
	}
	return e
}

// update is α e + β c by the rules of BLAS: β = 0 does not read c, α = 0 not e.
func update(alpha float64, e entry, beta, c float64) entry {
	var r entry
	if alpha != 0 {
		r = entry{alpha * e.value, math.Abs(alpha) * e.size}
	}
	if beta != 0 {
		r.value += beta * c
		r.size += math.Abs(beta * c)
	}
	return r
}

// close fails unless got is want within the rounding of a sum of k terms:
// each order of summation is within k·eps of the exact sum of magnitudes
// [Higham, Accuracy and Stability, eq. 3.5], and there are two orders here.
func (want entry) close(t *testing.T, got float64, k int, where string, at ...any) {
	t.Helper()
	if math.IsNaN(want.value) && math.IsNaN(got) || got == want.value {
		return
	}
	if !(math.Abs(got-want.value) <= 2*float64(k+4)*eps*want.size) {
		t.Fatalf("%s: got %g, want %g, magnitudes %g", fmt.Sprintf(where, at...), got, want.value, want.size)
	}
}

// every calls f with all elements of a rows × cols matrix or, where k steps for
// each would take long, with some of them spread over all rows and columns.
func every(rows, cols, k int, f func(i, j int)) {
	step := 1 + rows*cols*k/300_000
	for cols > 0 && gcd(step, cols) > 1 {
		step++
	}
	for at := 0; at < rows*cols; at += step {
		f(at/cols, at%cols)
	}
}

func gcd(a, b int) int {
	for b > 0 {
		a, b = b, a%b
	}
	return a
}

// untouched fails if any element for which written is false differs from
// before, bit by bit.
func untouched(t *testing.T, before, after blas64.General, written func(i, j int) bool) {
	t.Helper()
	for at := range before.Data {
		i, j := at/before.Stride, at%before.Stride
		if j < before.Cols && written(i, j) {
			continue
		}
		if math.Float64bits(before.Data[at]) != math.Float64bits(after.Data[at]) {
			t.Fatalf("element (%d, %d) was written", i, j)
		}
	}
}

// sameBits fails unless the two are equal bit by bit.
func sameBits(t *testing.T, what string, a, b []float64) {
	t.Helper()
	for i := range a {
		if math.Float64bits(a[i]) != math.Float64bits(b[i]) {
			t.Fatalf("%s: element %d is %g and %g", what, i, a[i], b[i])
		}
	}
}

// allOf is every element of a matrix.
func allOf(int, int) bool { return true }

func source(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// pick returns one of the values.
func pick[T any](rnd *rand.Rand, values ...T) T { return values[rnd.IntN(len(values))] }

// size is a random dimension, mostly small, sometimes 0.
func size(rnd *rand.Rand) int {
	return pick(rnd, 0, 1, 1+rnd.IntN(8), 1+rnd.IntN(30), 1+rnd.IntN(30), 1+rnd.IntN(120))
}
