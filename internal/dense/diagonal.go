package dense

// diagonal is one block of a triangle, rows and columns lo to lo+k−1, packed for the kernels. Its rows are in the
// order of elimination, so that it is always a lower triangle. It is packed in strips of mr rows. A strip has the
// rectangle left of the diagonal, column by column, and then the mr × mr elements at the diagonal, with reciprocals
// on the diagonal.
type diagonal struct {
	system
	lo, k  int
	alpha  float64
	isa    isa
	mr, nr int
	packed *buffer
}

func newDiagonal(s system, lo, k int, alpha float64) diagonal {
	d := diagonal{system: s, lo: lo, k: k, alpha: alpha, isa: active}
	d.mr, d.nr = d.isa.shape()
	d.packed = getBuffer(d.strip(roundUp(k, d.mr)))
	for i := 0; i < k; i += d.mr {
		d.packStrip(d.packed.s[d.strip(i):], i)
	}
	return d
}

// strip returns where the strip of row i starts, i a multiple of mr.
func (d *diagonal) strip(i int) int { return i * (i + d.mr) / 2 }

// row returns the row of the system that is row i of the block.
func (d *diagonal) row(i int) int {
	if d.forward {
		return d.lo + i
	}
	return d.lo + d.k - 1 - i
}

// packStrip packs rows i to i+mr−1. Rows beyond the block are rows of the identity.
func (d *diagonal) packStrip(dst []float64, i int) {
	rows := min(d.mr, d.k-i)
	down, right := d.trs, d.tcs
	if !d.forward {
		down, right = -down, -right
	}
	first := d.row(i)*d.trs + d.row(0)*d.tcs
	for q := range i + d.mr {
		col := dst[q*d.mr:][:d.mr]
		at := first + q*right
		if down == 1 && rows == d.mr && q < i { // the column as it lies
			copy(col, d.t[at:at+rows])
			continue
		}
		clear(col)
		for r := max(0, q-i); r < rows; r++ {
			col[r] = d.t[at+r*down]
		}
		if r := q - i; r >= 0 {
			col[r] = d.reciprocal(r < rows, col[r])
		}
	}
}

// reciprocal returns the packed diagonal element for v: 1/v, or 1 for a unit triangle and beyond the block.
func (d *diagonal) reciprocal(exists bool, v float64) float64 {
	if !exists || d.unit {
		return 1
	}
	return 1 / v
}

// panel solves for the nr columns of X in panel n.
func (d *diagonal) panel(n int) {
	j := n * d.nr
	cols := min(d.nr, d.cols-j)
	rows := roundUp(d.k, d.mr)
	buf := getBuffer(rows * d.nr)
	x := buf.s
	d.load(x, j, cols)
	clear(x[d.k*d.nr:])
	for i := 0; i < rows; i += d.mr {
		t, y := d.packed.s[d.strip(i):], x[i*d.nr:]
		if i > 0 {
			d.isa.full(i, t, 1, d.mr, x, d.nr, y, d.nr, -1, 1)
		}
		d.isa.solve(t[i*d.mr:], y, d.nr)
	}
	d.store(x, j, cols)
	buf.free()
}

// load copies α times columns j to j+cols−1 of X to x, row by row. Zeros fill the panel.
func (d *diagonal) load(x []float64, j, cols int) {
	if d.left {
		for i := range d.k {
			at := d.row(i)*d.xrs + j
			copy(x[i*d.nr:], d.x[at:at+cols])
		}
	} else {
		d.loadTrans(x, j, cols)
	}
	if cols < d.nr {
		for i := range d.k {
			clear(x[i*d.nr+cols : (i+1)*d.nr])
		}
	}
	if d.alpha != 1 {
		for i := range x[:d.k*d.nr] {
			x[i] *= d.alpha
		}
	}
}

// store copies x back to columns j to j+cols−1 of X.
func (d *diagonal) store(x []float64, j, cols int) {
	if !d.left {
		d.storeTrans(x, j, cols)
		return
	}
	for i := range d.k {
		at := d.row(i)*d.xrs + j
		copy(d.x[at:at+cols], x[i*d.nr:])
	}
}

// loadTrans is load for an X whose columns are contiguous.
func (d *diagonal) loadTrans(x []float64, j, cols int) {
	first, step := d.walk()
	c := 0
	for ; c+4 <= cols; c += 4 {
		interleave4(x, first+c, step, d.column(j+c), d.column(j+c+1), d.column(j+c+2), d.column(j+c+3))
	}
	for ; c < cols; c++ {
		for q, v := range d.column(j + c) {
			x[first+c+q*step] = v
		}
	}
}

// storeTrans is store for an X whose columns are contiguous.
func (d *diagonal) storeTrans(x []float64, j, cols int) {
	first, step := d.walk()
	c := 0
	for ; c+4 <= cols; c += 4 {
		separate4(d.column(j+c), d.column(j+c+1), d.column(j+c+2), d.column(j+c+3), x, first+c, step)
	}
	for ; c < cols; c++ {
		col := d.column(j + c)
		for q := range col {
			col[q] = x[first+c+q*step]
		}
	}
}

// column returns the block's part of column j of X, which is contiguous.
func (d *diagonal) column(j int) []float64 { return d.x[j*d.xcs+d.lo:][:d.k] }

// walk returns where the block's first row is in a panel, and the distance from there to the second row.
func (d *diagonal) walk() (first, step int) {
	if d.forward {
		return 0, d.nr
	}
	return (d.k - 1) * d.nr, -d.nr
}
