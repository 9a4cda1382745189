package dense

// block is a part of a product whose operands are packed together: rows i0 to i0+m−1 and columns j0 to j0+n−1 of C,
// and terms p0 to p0+k−1 of the sums. The methods count rows, columns and terms from i0, j0 and p0.
type block struct {
	product
	i0, j0, p0  int
	m, n, k     int
	mr, nr      int      // rows and columns of a kernel's tile
	rows, cols  int      // rows and columns of a worker's tile
	left, right *buffer  // buffers for packed a and b
	mode        leftMode // where the kernels read a
	inPlace     bool     // b is read in place, except for an incomplete last panel, which is in right
}

// leftMode says where the kernels read the rows of a.
type leftMode int

const (
	packed leftMode = iota // in left, in strips of mr rows
	shared                 // in right, because a is b
	direct                 // in place, except for an incomplete last strip, which is in left
)

func newBlock(g product, i0, i1, j0, j1, p0, p1 int) block {
	b := block{product: g, i0: i0, j0: j0, p0: p0, m: i1 - i0, n: j1 - j0, k: p1 - p0}
	b.mr, b.nr = g.isa.shape()
	strips := inPlaceStrips
	if g.b.cs > inPlaceStride {
		strips = inPlaceFewer
	}
	b.inPlace = !g.same && g.b.part == whole && g.b.rs == 1 && b.m <= strips*b.mr
	if b.inPlace {
		b.right = getBuffer(b.nr * b.k)
	} else {
		b.right = getBuffer(b.width() * b.k)
	}
	switch {
	case g.same && i0 == j0:
		b.mode = shared
	case g.a.part == whole && b.n <= directCols:
		b.mode = direct
		b.left = getBuffer(b.mr * b.k)
	default:
		b.left = getBuffer(b.height() * b.k)
	}
	return b
}

func (b *block) free() {
	b.right.free()
	if b.left != nil {
		b.left.free()
	}
}

// height and width are the numbers of packed rows of a and of b.
func (b *block) height() int { return roundUp(b.m, b.mr) }
func (b *block) width() int  { return roundUp(b.n, b.nr) }

// run packs the operands and computes the tiles.
func (b *block) run(workers int) {
	workers = workersFor(float64(b.m)*float64(b.n)*float64(b.k), workers)
	b.setTile(workers)
	if workers > 1 {
		newTeam(b).run(workers)
		return
	}
	for t := range b.packs() {
		b.pack(t)
	}
	for t := range b.tiles() {
		b.tile(t)
	}
}

// setTile chooses tiles small enough that all workers finish at about the same time.
func (b *block) setTile(workers int) {
	b.rows, b.cols = min(tileRows, roundUp(b.m, tileUnit)), min(tileCols, roundUp(b.n, tileUnit))
	for workers > 1 && b.tiles() < 4*workers && max(b.rows, b.cols) > 2*tileUnit {
		if b.rows >= b.cols {
			b.rows = roundUp(b.rows/2, tileUnit)
		} else {
			b.cols = roundUp(b.cols/2, tileUnit)
		}
	}
}

// packs returns the number of packing tasks. Each task packs packRows rows, first those of b, then those of a.
func (b *block) packs() int { return b.rightPacks() + b.leftPacks() }

func (b *block) rightPacks() int {
	switch {
	case !b.inPlace:
		return (b.n + packRows - 1) / packRows
	case b.n%b.nr == 0:
		return 0
	}
	return 1
}

func (b *block) leftPacks() int {
	switch {
	case b.mode == shared, b.mode == direct && b.m%b.mr == 0:
		return 0
	case b.mode == direct:
		return 1
	}
	return (b.m + packRows - 1) / packRows
}

// pack does packing task t.
func (b *block) pack(t int) {
	if t < b.rightPacks() {
		if b.inPlace {
			b.packPanels(b.right.s, b.b, b.nr, b.nr, b.j0, b.n-b.n%b.nr, b.n, 0)
			return
		}
		j := t * packRows
		b.packPanels(b.right.s, b.b, b.nr, b.width(), b.j0, j, min(j+packRows, b.n), j)
		return
	}
	if b.mode == direct {
		b.packPanels(b.left.s, b.a, b.mr, b.mr, b.i0, b.m-b.m%b.mr, b.m, 0)
		return
	}
	i := (t - b.rightPacks()) * packRows
	b.packPanels(b.left.s, b.a, b.mr, b.height(), b.i0, i, min(i+packRows, b.m), i)
}

// packPanels packs rows lo to hi−1 of o, counted from first, to dst. dst has total rows: depth terms of all of
// them, then the next depth terms. Row lo is row at of dst.
func (b *block) packPanels(dst []float64, o operand, width, total, first, lo, hi, at int) {
	for p := 0; p < b.k; p += depth {
		k := min(depth, b.k-p)
		o.pack(dst[p*total+at*k:], width, first+lo, hi-lo, b.p0+p, k)
	}
}

// tiles returns the number of tiles of C.
func (b *block) tiles() int {
	return (b.m + b.rows - 1) / b.rows * ((b.n + b.cols - 1) / b.cols)
}

// tile computes tile t. Its sums add the terms in order, depth at a time, in every tile. Where rows of a
// are read in place, it takes all terms of a strip of a before the next strip, as they lie in memory.
func (b *block) tile(t int) {
	down := (b.m + b.rows - 1) / b.rows
	i0, j0 := t%down*b.rows, t/down*b.cols
	i1, j1 := min(i0+b.rows, b.m), min(j0+b.cols, b.n)
	if b.outside(b.i0+i0, b.i0+i1, b.j0+j0, b.j0+j1) {
		return
	}
	strip := i1 - i0
	if b.mode == direct && b.a.cs == 1 {
		strip = b.mr
	}
	for ; i0 < i1; i0 += strip {
		for p := 0; p < b.k && !(b.staircase && b.p0+p >= b.j0+j1); p += depth {
			for i := i0; i < min(i0+strip, i1); i += b.mr {
				for j := j0; j < j1; j += b.nr {
					b.kernel(i, j, p, min(depth, b.k-p), min(b.mr, i1-i), min(b.nr, j1-j))
				}
			}
		}
	}
}

// kernel adds k terms, from term p on, to the rows × cols elements of C at (i, j).
func (b *block) kernel(i, j, p, k, rows, cols int) {
	r, s := b.i0+i, b.j0+j
	if b.outside(r, r+rows, s, s+cols) {
		return
	}
	beta := b.beta
	if b.p0+p > 0 {
		beta = 1
	}
	left, ars, acs := b.strip(i, p, k)
	right, brs := b.panel(j, p, k)
	if b.staircase {
		if k = min(k, s+b.nr-b.p0-p); k <= 0 {
			return
		}
	}
	c := b.c[r*b.ldc+s:]
	switch {
	case !b.inside(r, r+rows, s, s+cols):
		b.isa.patch(k, left, ars, acs, right, brs, c, b.ldc, b.alpha, beta, span{rows, cols, b.part, r - s})
	case rows < b.mr || cols < b.nr:
		b.isa.edge(k, left, ars, acs, right, brs, c, b.ldc, b.alpha, beta, rows, cols)
	default:
		b.isa.full(k, left, ars, acs, right, brs, c, b.ldc, b.alpha, beta)
	}
}

// panel returns the columns of b from j on at term p, where a run of k terms starts, and the stride between terms.
func (b *block) panel(j, p, k int) (right []float64, stride int) {
	switch {
	case !b.inPlace:
		return b.right.s[p*b.width()+j*k:], b.nr
	case j+b.nr <= b.n:
		return b.b.data[b.j0+j+(b.p0+p)*b.b.cs:], b.b.cs
	}
	return b.right.s[p*b.nr:], b.nr
}

// strip returns the rows of a from i on at term p, where a run of k terms starts, with the strides between rows and
// terms.
func (b *block) strip(i, p, k int) (a []float64, rs, cs int) {
	switch {
	case b.mode == shared:
		return b.right.s[p*b.width()+(i-i%b.nr)*k+i%b.nr:], 1, b.nr
	case b.mode == packed:
		return b.left.s[p*b.height()+i*k:], 1, b.mr
	case i+b.mr <= b.m:
		return b.a.data[(b.i0+i)*b.a.rs+(b.p0+p)*b.a.cs:], b.a.rs, b.a.cs
	}
	return b.left.s[p*b.mr:], 1, b.mr
}
