package dense

import "gonum.org/v1/gonum/blas/blas64"

const (
	// depth is the number of terms of a sum that are added in registers before they are added to C. It determines
	// the rounding, so it is the same everywhere.
	depth = 256

	// tileRows and tileCols are the largest tile of C that a worker computes at once. Its packed operands, depth
	// terms deep, should stay in the L2 cache. Every tile is a multiple of each kernel's tile.
	tileRows, tileCols = 192, 240
	tileUnit           = 24

	// blockSize is the most rows or columns of C whose operands are packed together. blockArea is the most packed
	// elements (16 MiB).
	blockSize = 4096
	blockArea = 1 << 21

	// packRows is the number of rows of an operand that one task packs.
	packRows = 4 * tileUnit

	// directCols is the most columns of C for which A is read in place.
	directCols = 2 * tileUnit

	// B, whose rows are contiguous, is read in place if A has few strips: packing it would take about as long as
	// multiplying. More strips read it once for each, which rows far apart make slow.
	inPlaceStrips, inPlaceFewer, inPlaceStride = 4, 2, 2048

	// grain is the work, in multiplications, for which starting a goroutine pays.
	grain = 1 << 19
)

// product is C = α A B + β C, or one triangle of it. a is A and b is Bᵀ, both rows × k.
type product struct {
	a, b        operand
	c           []float64
	ldc         int
	m, n, k     int
	alpha, beta float64
	part        part // part of C that is computed
	same        bool // b is a
	staircase   bool // Bᵀ has zeros right of its diagonal; these terms are skipped
	isa         isa
}

// run computes the product, one rectangle with packed operands after another.
func (g product) run(l limit) error {
	g.isa = active
	if g.m == 0 || g.n == 0 {
		return nil
	}
	if g.alpha == 0 || g.k == 0 {
		g.scale()
		return nil
	}
	if g.flat() {
		return g.transposed(l)
	}
	for i := 0; i < g.m; i += blockSize {
		for j := 0; j < g.n; j += blockSize {
			i1, j1 := min(i+blockSize, g.m), min(j+blockSize, g.n)
			if g.outside(i, i1, j, j1) {
				continue
			}
			if err := g.rectangle(i, i1, j, j1, l); err != nil {
				return err
			}
		}
	}
	return nil
}

// flat tells whether C has few rows and many columns, and Bᵀ contiguous rows, which can be read in place as the left
// factor of Cᵀ = α Bᵀ Aᵀ. Packing them takes longer than multiplying them with few rows.
func (g *product) flat() bool {
	return g.part == whole && !g.same && !g.staircase && g.b.part == whole && g.b.cs == 1 && g.b.rs != 1 &&
		g.m <= directCols && g.n > directCols && g.k >= depth/4
}

// transposed computes Cᵀ = α Bᵀ Aᵀ + β Cᵀ, whose elements have the bits of C's: each is the sum of the same products in the
// same order.
func (g *product) transposed(l limit) error {
	buf := getBuffer(g.n * g.m)
	defer buf.free()
	t := blas64.General{Rows: g.n, Cols: g.m, Stride: g.m, Data: buf.s}
	c := blas64.General{Rows: g.m, Cols: g.n, Stride: g.ldc, Data: g.c}
	if g.beta != 0 {
		TransposeTo(t, c)
	}
	f := product{a: g.b, b: g.a, c: t.Data, ldc: t.Stride, m: g.n, n: g.m, k: g.k, alpha: g.alpha, beta: g.beta}
	if err := f.run(l); err != nil {
		return err
	}
	TransposeTo(c, t)
	return nil
}

// scale computes C = β C.
func (g product) scale() {
	s := span{rows: g.m, cols: g.n, part: g.part}
	for i := range g.m {
		lo, hi := s.columns(i)
		row := g.c[i*g.ldc:][lo:hi]
		if g.beta == 0 {
			clear(row)
			continue
		}
		for j := range row {
			row[j] *= g.beta
		}
	}
}

// outside tells whether no element of rows i0 to i1−1 and columns j0 to j1−1 is computed.
func (g *product) outside(i0, i1, j0, j1 int) bool {
	return g.part == lower && j0 > i1-1 || g.part == upper && i0 > j1-1
}

// inside tells whether all elements of rows i0 to i1−1 and columns j0 to j1−1 are computed.
func (g *product) inside(i0, i1, j0, j1 int) bool {
	return g.part == whole || g.part == lower && j1-1 <= i0 || g.part == upper && i1-1 <= j0
}

// rectangle computes rows i0 to i1−1 and columns j0 to j1−1 of C, with as many terms at a time as the packing
// memory allows.
func (g product) rectangle(i0, i1, j0, j1 int, l limit) error {
	step := max(1, blockArea/(i1-i0+j1-j0)/depth) * depth
	for p := 0; p < g.k; p += step {
		if err := l.err(); err != nil {
			return err
		}
		if g.staircase && p >= j1 {
			return nil
		}
		first := j0
		if g.staircase {
			first = max(j0, p)
		}
		b := newBlock(g, i0, i1, first, j1, p, min(p+step, g.k))
		b.run(l.workers)
		b.free()
	}
	return nil
}

func roundUp(n, unit int) int { return (n + unit - 1) / unit * unit }
