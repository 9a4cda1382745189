package dense

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
)

// pivotBlock is the number of columns that Pstrf factors before it subtracts their products from the rest.
const pivotBlock = 64

// pivotRows is the number of rows of a factor's column in one task.
const pivotRows = 1024

// Pstrf factors the positive semidefinite PᵀAP = UᵀU (Upper) or LLᵀ (Lower) in place of the referenced triangle. It
// neither reads nor writes the other triangle. Each pivot is the largest remaining diagonal element, the first of
// equal ones. Pstrf ends before the first pivot that is not above tol, and where a NaN remains on the diagonal. A
// negative tol means N·eps times the largest diagonal element. rank is the number of pivots. The first rank rows of
// U, or columns of L, are the factor; the rest of the triangle is undefined. Row i of PᵀAP is row piv[i] of A; piv
// must have length N.
func Pstrf(a blas64.Symmetric, piv []int, tol float64) (t blas64.Triangular, rank int) {
	t, rank, _ = pstrf(a, piv, tol, limit{})
	return t, rank
}

func pstrf(a blas64.Symmetric, piv []int, tol float64, l limit) (t blas64.Triangular, rank int, err error) {
	checkMatrix(a.N, a.N, a.Stride, a.Data)
	checkUplo(a.Uplo)
	if len(piv) != a.N {
		panic(badPivots)
	}
	for i := range piv {
		piv[i] = i
	}
	p := newPivoting(a, piv, tol)
	defer p.buf.free()
	for lo := 0; lo < a.N; lo += pivotBlock {
		if err := l.err(); err != nil {
			return t, 0, err
		}
		done := p.panel(lo, l.workers)
		rank += done
		if lo+done < p.hi || p.hi == a.N {
			break
		}
		if err := p.update(l); err != nil {
			return t, 0, err
		}
	}
	return triangleOf(a), rank, nil
}

// pivoting is the state of a pivoted factorization. Element (i, j) of the lower triangle, i ≥ j, of A or of its
// mirror image is data[i*rs+j*cs].
type pivoting struct {
	data   []float64
	rs, cs int
	n      int
	uplo   blas.Uplo
	piv    []int
	tol    float64

	buf        *buffer
	lo, hi     int       // columns lo to hi−1 are the panel
	columns    []float64 // column j of the panel: element (i, j), i ≥ j, is columns[(j-lo)*ld+i]
	ld         int
	diag, dots []float64 // diagonal of A before the panel, and sums of squares to subtract from it
}

func newPivoting(a blas64.Symmetric, piv []int, tol float64) pivoting {
	n := a.N
	p := pivoting{data: a.Data, rs: a.Stride, cs: 1, n: n, uplo: a.Uplo, piv: piv, tol: max(tol, 0)}
	if a.Uplo == blas.Upper {
		p.rs, p.cs = 1, a.Stride
	}
	// ld is an odd number of cache lines, so that columns do not share cache sets.
	p.ld = (roundUp(n, line)/line | 1) * line
	p.buf = getBuffer((pivotBlock + 2) * p.ld)
	p.columns = p.buf.s[:pivotBlock*p.ld]
	p.diag, p.dots = p.buf.s[pivotBlock*p.ld:][:n], p.buf.s[(pivotBlock+1)*p.ld:][:n]
	if tol < 0 {
		largest := 0.0
		for i := range n {
			largest = max(largest, a.Data[i*(a.Stride+1)])
		}
		p.tol = float64(n) * 0x1p-53 * largest
	}
	return p
}

// column returns column j of the panel. Elements before row j are unused.
func (p *pivoting) column(j int) []float64 { return p.columns[(j-p.lo)*p.ld:][:p.n] }

// panel factors up to pivotBlock columns from lo on. It returns the number of columns factored, which is smaller
// than the panel where the pivots end.
func (p *pivoting) panel(lo, workers int) int {
	p.lo, p.hi = lo, min(lo+pivotBlock, p.n)
	p.load()
	j := lo
	for ; j < p.hi; j++ {
		at, pivot := p.pivot(j)
		if !(pivot > p.tol) {
			break
		}
		if at != j {
			p.swap(j, at)
		}
		p.eliminate(j, math.Sqrt(pivot), workers)
	}
	p.store(j)
	return j - lo
}

// load copies the panel and the diagonal from A.
func (p *pivoting) load() {
	for i := p.lo; i < p.n; i++ {
		p.diag[i] = p.data[i*(p.rs+p.cs)]
		p.dots[i] = 0
		for j := p.lo; j < min(i, p.hi); j++ {
			p.columns[(j-p.lo)*p.ld+i] = p.data[i*p.rs+j*p.cs]
		}
	}
}

// store copies the factored columns, those before end, back to A, and the diagonal behind the panel, which swaps
// have permuted.
func (p *pivoting) store(end int) {
	for i := p.lo; i < p.n; i++ {
		for j := p.lo; j < min(i+1, end); j++ {
			p.data[i*p.rs+j*p.cs] = p.columns[(j-p.lo)*p.ld+i]
		}
	}
	for i := p.hi; i < p.n; i++ {
		p.data[i*(p.rs+p.cs)] = p.diag[i]
	}
}

// pivot returns the position and the value of the largest diagonal element from j on, after subtracting the panel's
// columns before j. A NaN counts as the largest.
func (p *pivoting) pivot(j int) (at int, largest float64) {
	at, largest = j, math.Inf(-1)
	diag, dots := p.diag[:p.n], p.dots[:p.n]
	if j > p.lo {
		for i, v := range p.column(j - 1)[j:] {
			dots[j+i] += v * v
		}
	}
	for i := j; i < len(diag); i++ {
		// The comparison is true for a NaN.
		if d := diag[i] - dots[i]; !(d <= largest) {
			at, largest = i, d
			if math.IsNaN(d) {
				break
			}
		}
	}
	return at, largest
}

// swap exchanges rows and columns j and q of A, j < q, and of the factor computed so far.
func (p *pivoting) swap(j, q int) {
	p.piv[j], p.piv[q] = p.piv[q], p.piv[j]
	p.diag[j], p.diag[q] = p.diag[q], p.diag[j]
	p.dots[j], p.dots[q] = p.dots[q], p.dots[j]
	// The factor left of the panel and in it.
	exchange(p.lo, p.data, j*p.rs, p.cs, p.data, q*p.rs, p.cs)
	exchange(j-p.lo, p.columns, j, p.ld, p.columns, q, p.ld)
	// Column j between the rows j and q, and row q.
	c, mid := p.column(j), min(q, p.hi)
	exchange(mid-j-1, c, j+1, 1, p.columns, (j+1-p.lo)*p.ld+q, p.ld)
	exchange(q-mid, c, mid, 1, p.data, q*p.rs+mid*p.cs, p.cs)
	// Columns j and q below row q.
	if q < p.hi {
		exchange(p.n-q-1, c, q+1, 1, p.column(q), q+1, 1)
	} else {
		exchange(p.n-q-1, c, q+1, 1, p.data, (q+1)*p.rs+q*p.cs, p.rs)
	}
}

// exchange exchanges n elements of x, from i on with stride xs, with n elements of y, from j on with stride ys.
func exchange(n int, x []float64, i, xs int, y []float64, j, ys int) {
	for range n {
		x[i], y[j] = y[j], x[i]
		i += xs
		j += ys
	}
}

// eliminate computes column j of the factor. root is its diagonal element.
func (p *pivoting) eliminate(j int, root float64, workers int) {
	p.column(j)[j] = root
	// A product with a vector waits for memory: a multiplication takes about eight times as long as in a matrix
	// product.
	workers = workersFor(8*float64(j-p.lo)*float64(p.n-j), workers)
	if workers == 1 {
		p.rows(j, j+1, p.n, 1/root)
		return
	}
	p.parallel(j, 1/root, workers)
}

// rows computes rows lo to hi−1 of column j of the factor: it subtracts the panel's columns before j, and
// multiplies by scale.
func (p *pivoting) rows(j, lo, hi int, scale float64) {
	n := hi - lo
	c := blas64.Vector{N: n, Inc: 1, Data: p.column(j)[lo:hi]}
	if k := j - p.lo; k > 0 && n > 0 {
		before := blas64.General{Rows: k, Cols: n, Stride: p.ld, Data: p.columns[lo:]}
		Gemv(blas.Trans, -1, before, blas64.Vector{N: k, Inc: p.ld, Data: p.columns[j:]}, 1, c)
	}
	for i := range c.Data {
		c.Data[i] *= scale
	}
}

// update subtracts the products of the panel from the triangle behind it.
func (p *pivoting) update(l limit) error {
	panel := blas64.General{Rows: p.hi - p.lo, Cols: p.n - p.hi, Stride: p.ld, Data: p.columns[p.hi:]}
	rest := blas64.Symmetric{N: p.n - p.hi, Stride: max(p.rs, p.cs), Data: p.data[p.hi*(p.rs+p.cs):], Uplo: p.uplo}
	return syrk(blas.Trans, -1, panel, 1, rest, l)
}
