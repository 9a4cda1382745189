// Package testkit holds what the tests of several packages share: dense algebra
// to write equations in, random problems, posteriors by dense formulas, trained
// reference networks, and checks of cancellation. Dense algebra is slow, short
// and obviously right, and panics where shapes do not fit.
package testkit

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"
)

// Column returns a copy of m, N×C, as N·C×1.
func Column(m *mat.Dense) *mat.Dense {
	r, c := m.Dims()
	return mat.NewDense(r*c, 1, mat.DenseCopyOf(m).RawMatrix().Data)
}

// Vec returns a copy of v as a column.
func Vec(v []float64) *mat.Dense { return mat.NewDense(len(v), 1, append([]float64(nil), v...)) }

// Product returns the product of one or more matrices, from the left.
func Product(ms ...mat.Matrix) *mat.Dense {
	out := mat.DenseCopyOf(ms[0])
	for _, m := range ms[1:] {
		var next mat.Dense
		next.Mul(out, m)
		out = &next
	}
	return out
}

// Plus returns a + s·b.
func Plus(a mat.Matrix, s float64, b mat.Matrix) *mat.Dense {
	var out mat.Dense
	out.Scale(s, b)
	out.Add(a, &out)
	return &out
}

// Inverse returns m⁻¹. It fails the test if m is singular or nearly singular.
func Inverse(t testing.TB, m mat.Matrix) *mat.Dense {
	t.Helper()
	var out mat.Dense
	require.NoError(t, out.Inverse(m))
	return &out
}

// Identity returns the n×n identity.
func Identity(n int) *mat.Dense {
	m := mat.NewDense(n, n, nil)
	for i := range n {
		m.Set(i, i, 1)
	}
	return m
}

// LogDet returns log |det m|.
func LogDet(m mat.Matrix) float64 {
	v, _ := mat.LogDet(m)
	return v
}

// Whole returns the N·C×N·C block-diagonal matrix of blocks, N·C×C.
func Whole(blocks *mat.Dense) *mat.Dense {
	n, c := blocks.Dims()
	m := mat.NewDense(n, n, nil)
	for i := range n {
		for j := range c {
			m.Set(i, i/c*c+j, blocks.At(i, j))
		}
	}
	return m
}

// DiagonalBlocks returns the C×C blocks on the diagonal of m as N·C×C.
func DiagonalBlocks(m *mat.Dense, c int) *mat.Dense {
	n, _ := m.Dims()
	out := mat.NewDense(n, c, nil)
	for i := range n {
		for j := range c {
			out.Set(i, j, m.At(i, i/c*c+j))
		}
	}
	return out
}

// RequireNumber compares two numbers relative to the larger of want and 1.
func RequireNumber(t testing.TB, what string, got, want, rel float64) {
	t.Helper()
	if d := math.Abs(got - want); !(d <= rel*math.Max(1, math.Abs(want))) {
		t.Fatalf("%s is %v, want %v; off by %.3g, tolerance %.3g", what, got, want, d, rel)
	}
}

// Flat returns a copy of the numbers of m in row order.
func Flat(m mat.Matrix) []float64 { return mat.DenseCopyOf(m).RawMatrix().Data }

// RequireClose fails the test if an entry differs by more than rel times the largest entry of want.
func RequireClose(t testing.TB, what string, got, want mat.Matrix, rel float64) {
	t.Helper()
	r, c := want.Dims()
	gr, gc := got.Dims()
	require.Equal(t, [2]int{r, c}, [2]int{gr, gc}, what)
	d, scale := Difference(got, want)
	if !(d <= rel*scale) {
		t.Fatalf("%s: off by %.3g of the largest, tolerance %.3g", what, d/scale, rel)
	}
}

// Difference returns the largest difference and the largest entry of want. A
// NaN counts as an infinite difference.
func Difference(got, want mat.Matrix) (d, scale float64) {
	r, c := want.Dims()
	for i := range r {
		for j := range c {
			e := math.Abs(got.At(i, j) - want.At(i, j))
			if math.IsNaN(e) {
				e = math.Inf(1)
			}
			d, scale = math.Max(d, e), math.Max(scale, math.Abs(want.At(i, j)))
		}
	}
	return d, scale
}

// Absolute returns the absolute values of m.
func Absolute(m mat.Matrix) *mat.Dense {
	var a mat.Dense
	a.Apply(func(_, _ int, v float64) float64 { return math.Abs(v) }, m)
	return &a
}
