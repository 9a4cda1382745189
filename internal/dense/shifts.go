package dense

import "gonum.org/v1/gonum/blas/blas64"

// Shifts describes a matrix whose rows are one rectangle of an array at different offsets, such as the patches of a
// convolution. Element (p, y·cols + x) is src[offset[p] + y·pitch + x], with y < rows and x < cols. Each product
// gets its own src and reads the rows in place.
type Shifts struct {
	rows, cols int
	extent     int // number of elements of src up to the last one read
	offset     []int
	four       positions
	eight      positions
}

// positions are the vectors that cover the rectangle. The last vector of a row may overlap the one before it.
type positions struct {
	lanes int
	from  []int // byte position in src of the first element, without the offset
	to    []int // byte position in a row of the matrix
}

// NewShifts returns the matrix with these offsets, which are ≥ 0.
func NewShifts(offset []int, rows, cols, pitch int) *Shifts {
	if rows <= 0 || cols <= 0 || pitch < 0 || len(offset) == 0 {
		panic("dense: shifts of an empty rectangle")
	}
	if pitch == cols {
		rows, cols, pitch = 1, rows*cols, rows*cols
	}
	s := &Shifts{rows: rows, cols: cols, offset: make([]int, len(offset))}
	for p, o := range offset {
		if o < 0 {
			panic("dense: a shift is negative")
		}
		s.offset[p] = 8 * o
		s.extent = max(s.extent, o+(rows-1)*pitch+cols)
	}
	s.four, s.eight = s.positions(4, pitch), s.positions(8, pitch)
	return s
}

func (s *Shifts) positions(lanes, pitch int) positions {
	p := positions{lanes: lanes}
	if s.cols < lanes {
		return p
	}
	for y := range s.rows {
		for x := 0; x < s.cols; x += lanes {
			x := min(x, s.cols-lanes)
			p.from = append(p.from, 8*(y*pitch+x))
			p.to = append(p.to, 8*(y*s.cols+x))
		}
	}
	return p
}

// Dims returns the number of rows and columns of the matrix.
func (s *Shifts) Dims() (rows, cols int) { return len(s.offset), s.rows * s.cols }

// Usable tells whether this machine can multiply by the matrix in place. Where it cannot, the methods below panic.
func (s *Shifts) Usable() bool { return s.at() != nil && !foreign() }

// at returns the positions for the kernels in use, or nil without such kernels.
func (s *Shifts) at() *positions {
	switch {
	case active == avx512 && s.cols >= 8:
		return &s.eight
	case active != portable && s.cols >= 4:
		return &s.four
	}
	return nil
}

// shiftRows and shiftVectors are the tile of Mul, in rows of the left factor and in vectors.
const shiftRows, shiftVectors = 4, 3

// PackedLen returns the length of a packed left factor with m rows.
func (s *Shifts) PackedLen(m int) int { return roundUp(m, shiftRows) * len(s.offset) }

// Pack writes the left factor of Mul, a or aᵀ, to dst, which must have length PackedLen.
func (s *Shifts) Pack(dst []float64, a blas64.General, trans bool) {
	checkGeneral(a)
	o, m, k := operand{data: a.Data, rs: a.Stride, cs: 1}, a.Rows, a.Cols
	if trans {
		o, m, k = operand{data: a.Data, rs: 1, cs: a.Stride}, a.Cols, a.Rows
	}
	if k != len(s.offset) || len(dst) != s.PackedLen(m) {
		panic(badShape)
	}
	o.pack(dst, shiftRows, 0, m, 0, k)
}

// Mul writes C = A B + b 1ᵀ to c, m×n and contiguous. B is the matrix over src, packed is A from Pack, and b has
// one number for each row or is nil. Each sum adds its terms in order.
func (s *Shifts) Mul(c []float64, m int, packed, b, src []float64) {
	at, n := s.at(), s.rows*s.cols
	if len(c) != m*n || len(packed) != s.PackedLen(m) || b != nil && len(b) != m {
		panic(badShape)
	}
	src = src[:s.extent]
	k := len(s.offset)
	var from, to [shiftVectors]int
	for v := 0; v < len(at.from); v += shiftVectors {
		for i := range from {
			j := min(v+i, len(at.from)-1)
			from[i], to[i] = at.from[j], at.to[j]
		}
		for r := 0; r < m; r += shiftRows {
			var bias [shiftRows]float64
			if b != nil {
				copy(bias[:], b[r:])
			}
			at.mul(k, packed[r*k:], src, s.offset, &from, c[r*n:], n, &to, &bias, min(shiftRows, m-r))
		}
	}
}

// dotTaps and dotRows are the tile of MulTrans, in rows of the matrix and in rows of the left factor.
const dotTaps, dotRows = 4, 3

// MulTransScratch returns the length of the scratch that MulTrans needs for a left factor with m rows.
func (s *Shifts) MulTransScratch(m int) int {
	return m * max(len(s.four.from)*4, len(s.eight.from)*8)
}

// MulTrans writes C = G Bᵀ + β C to c, m×k and contiguous. B is the matrix over src, G is m×n and contiguous, and β
// is 0 or 1. Each sum is split into as many parts as a vector has lanes, which are added at the end.
func (s *Shifts) MulTrans(c []float64, m int, g, src, scratch []float64, beta float64) {
	at, n, k := s.at(), s.rows*s.cols, len(s.offset)
	if len(c) != m*k || len(g) != m*n {
		panic(badShape)
	}
	src = src[:s.extent]
	if s.cols%at.lanes != 0 {
		g = at.separate(scratch, g, m, n)
		n = len(at.from) * at.lanes
	}
	var (
		rows [dotRows]int
		taps [dotTaps]int
		tile [dotRows * dotTaps]float64
	)
	for r := 0; r < m; r += dotRows {
		for i := range rows {
			rows[i] = 8 * n * min(r+i, m-1)
		}
		for p := 0; p < k; p += dotTaps {
			for i := range taps {
				taps[i] = s.offset[min(p+i, k-1)]
			}
			at.dots(g, &rows, src, &taps, &tile)
			for i := range min(dotRows, m-r) {
				row := c[(r+i)*k+p:][:min(dotTaps, k-p)]
				t := tile[i*dotTaps:][:len(row)]
				if beta == 0 {
					copy(row, t)
					continue
				}
				for j := range row {
					row[j] += t[j]
				}
			}
		}
	}
}

// separate copies the rows of g, n elements each, vector by vector. Zeros replace elements of a vector that overlap
// the one before it.
func (p *positions) separate(dst, g []float64, m, n int) []float64 {
	width := len(p.from) * p.lanes
	dst = dst[:m*width]
	for r := range m {
		row, to := g[r*n:(r+1)*n], dst[r*width:(r+1)*width]
		last := -1
		for _, at := range p.to {
			at /= 8
			v := to[:p.lanes]
			to = to[p.lanes:]
			copy(v, row[at:])
			clear(v[:max(0, last-at)])
			last = at + p.lanes
		}
	}
	return dst
}
