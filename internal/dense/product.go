package dense

const (
	// depth is how many terms of a sum are taken in registers before they
	// are added to C. It decides the rounding, so it is the same everywhere.
	depth = 256

	// tileRows and tileCols are the largest tile of C that a worker takes at
	// once: its packed operands, depth deep, are to stay in the L2 cache.
	// They and every smaller tile are multiples of each kernel's tile.
	tileRows, tileCols = 192, 240
	tileUnit           = 24

	// blockSize bounds the rows and columns of C whose operands are packed
	// together, blockArea the packed elements (16 MiB).
	blockSize = 4096
	blockArea = 1 << 21

	// packRows is how many rows of an operand are packed as one task.
	packRows = 4 * tileUnit

	// directCols is the number of columns of C up to which A is read in place.
	directCols = 2 * tileUnit

	// Up to inPlaceStrips strips of A, a B with contiguous rows no further
	// apart than inPlaceStride is read in place: packing it would cost about
	// as much as multiplying.
	inPlaceStrips, inPlaceStride = 4, 2048

	// grain is the work, in multiplications, worth starting a goroutine for.
	grain = 1 << 19
)

// product is C = α A B + β C, or a triangle of it. a is A and b is Bᵀ, both
// rows × k.
type product struct {
	a, b        operand
	c           []float64
	ldc         int
	m, n, k     int
	alpha, beta float64
	part        part // of C
	same        bool // b is a
	staircase   bool // Bᵀ has zeros right of its diagonal, whose terms are left out
	isa         isa
}

// run computes the product, one rectangle of packed operands after another.
func (g product) run(l limit) error {
	g.isa = active
	if g.m == 0 || g.n == 0 {
		return nil
	}
	if g.alpha == 0 || g.k == 0 {
		g.scale()
		return nil
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

// outside reports whether no element of the rectangle is computed.
func (g *product) outside(i0, i1, j0, j1 int) bool {
	return g.part == lower && j0 > i1-1 || g.part == upper && i0 > j1-1
}

// inside reports whether all elements of the rectangle are computed.
func (g *product) inside(i0, i1, j0, j1 int) bool {
	return g.part == whole || g.part == lower && j1-1 <= i0 || g.part == upper && i1-1 <= j0
}

// rectangle computes rows [i0, i1) and columns [j0, j1) of C, taking as many
// terms at a time as the packing memory holds.
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
