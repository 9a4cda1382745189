package dense

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
)

// Symm computes C = α A B + β C (Left) or C = α B A + β C for a symmetric A. It reads only the referenced triangle
// of A.
func Symm(s blas.Side, alpha float64, a blas64.Symmetric, b blas64.General, beta float64, c blas64.General) {
	symm(s, alpha, a, b, beta, c, limit{})
}

func symm(s blas.Side, alpha float64, a blas64.Symmetric, b blas64.General, beta float64, c blas64.General, l limit) error {
	if foreign() {
		return l.foreign(func() { blas64.Symm(s, alpha, a, b, beta, c) })
	}
	checkMatrix(a.N, a.N, a.Stride, a.Data)
	checkGeneral(b)
	checkGeneral(c)
	g := product{
		c: c.Data, ldc: c.Stride, m: c.Rows, n: c.Cols, k: a.N,
		alpha: alpha, beta: beta,
	}
	sym := operand{data: a.Data, rs: a.Stride, cs: 1, part: partOf(a.Uplo)}
	switch {
	case s == blas.Left && a.N == b.Rows:
		g.a, g.b = sym, columnsOf(blas.NoTrans, b)
	case s == blas.Right && a.N == b.Cols:
		g.a, g.b = rowsOf(blas.NoTrans, b), sym
	case s != blas.Left && s != blas.Right:
		panic(badSide)
	default:
		panic(badShape)
	}
	if b.Rows != c.Rows || b.Cols != c.Cols {
		panic(badShape)
	}
	vectors := c.Cols
	if s == blas.Right {
		vectors = c.Rows
	}
	if vectors == 0 || vectors > narrowCols || a.N <= depth || alpha == 0 {
		return g.run(l)
	}
	if s == blas.Left {
		return symmNarrow(alpha, a, b, beta, c, l)
	}
	buf := getBuffer(2 * a.N * vectors)
	defer buf.free()
	bt := blas64.General{Rows: a.N, Cols: vectors, Stride: vectors, Data: buf.s[:a.N*vectors]}
	ct := blas64.General{Rows: a.N, Cols: vectors, Stride: vectors, Data: buf.s[a.N*vectors : 2*a.N*vectors]}
	TransposeTo(bt, b)
	if beta != 0 {
		TransposeTo(ct, c)
	}
	err := symmNarrow(alpha, a, bt, beta, ct, l)
	TransposeTo(c, ct)
	return err
}

// narrowCols is the most vectors for which symmNarrow is used: reading A takes longer than multiplying them.
const narrowCols = 8

// symmNarrow computes C = α A B + β C for few columns. It reads each stored element of A from memory once, where
// the product of packed operands would mirror A.
//
// It goes through the stored triangle depth rows at a time, in squares of depth columns. A square A_PJ is used
// twice while it is in the cache: A_PJᵀ B_P is added to C_J, and A_PJ B_J to a buffer, which is added to C_P when
// all squares of these rows are done. Squares of the same rows change different parts of C, so workers can share
// them. Each element of C is the sum of the same runs of depth terms as in a product of packed operands, in the
// same order: runs before the diagonal, at the diagonal, and after it. The result therefore has the same bits as
// Gemm's.
func symmNarrow(alpha float64, a blas64.Symmetric, b blas64.General, beta float64, c blas64.General, l limit) error {
	n, cols, lower := a.N, c.Cols, a.Uplo == blas.Lower
	buf := getBuffer(n * cols)
	defer buf.free()
	for p := 0; p < n; p += depth {
		if err := l.err(); err != nil {
			return err
		}
		k := min(depth, n-p)
		lo, hi, first := p+k, n, 1. // columns of the squares, and the β of A_PJᵀ B_P
		if lower {
			lo, hi = 0, p
		}
		if p == 0 {
			first = beta
		}
		// multiply multiplies a by the rows of B from j on, on this goroutine. Without a context it returns no
		// error.
		multiply := func(a operand, j int, c []float64, ldc, m, k int, alpha, beta float64) {
			right := operand{data: b.Data[j*b.Stride:], rs: 1, cs: b.Stride}
			_ = product{a: a, b: right, c: c, ldc: ldc, m: m, n: cols, k: k, alpha: alpha, beta: beta}.run(limit{workers: 1})
		}
		squares := (hi - lo + depth - 1) / depth
		share(squares, workersFor(2*float64(k)*float64(hi-lo)*float64(cols), l.workers), func(t int) {
			j := lo + t*depth
			w, square := min(depth, hi-j), a.Data[p*a.Stride+j:]
			multiply(operand{data: square, rs: 1, cs: a.Stride}, p, c.Data[j*c.Stride:], c.Stride, w, k, alpha, first)
			multiply(operand{data: square, rs: a.Stride, cs: 1}, j, buf.s[t*depth*cols:], cols, k, w, 1, 0)
		})
		diagonal := func() {
			corner := operand{data: a.Data[p*a.Stride+p:], rs: a.Stride, cs: 1, part: partOf(a.Uplo)}
			multiply(corner, p, c.Data[p*c.Stride:], c.Stride, k, k, alpha, first)
		}
		if !lower {
			diagonal()
		}
		for t := range squares {
			was := 1.
			if lower && t == 0 {
				was = beta
			}
			for i := range k {
				addRun(c.Data[(p+i)*c.Stride:][:cols], buf.s[(t*depth+i)*cols:], alpha, was)
			}
		}
		if lower {
			diagonal()
		}
	}
	return nil
}

// addRun computes C = α acc + β C with the rounding of the kernels.
func addRun(c, acc []float64, alpha, beta float64) {
	for j := range c {
		switch x := acc[j]; {
		case beta == 0:
			c[j] = alpha * x
		case active == portable:
			c[j] = alpha*x + float64(beta*c[j])
		default:
			c[j] = math.FMA(alpha, x, beta*c[j])
		}
	}
}
