package dense

// isa is an instruction set, for which there is a set of micro-kernels.
type isa int

const (
	portable isa = iota
	avx2
	neon
	avx512
)

func (s isa) String() string { return [...]string{"portable", "avx2", "neon", "avx512"}[s] }

// InstructionSet names the micro-kernels in use: avx512, avx2, neon, or portable for those in Go.
func InstructionSet() string { return active.String() }

// active is the instruction set in use. Only tests change it.
var active = isas()[0]

// shape returns the rows and columns of the tile of C that a kernel updates.
func (s isa) shape() (mr, nr int) {
	switch s {
	case avx512:
		return 8, 24
	case avx2, neon:
		return 4, 12
	}
	return 4, 4
}

const maxTile = 8 * 24

// span says which elements of a tile of C belong to the result: the first rows × cols elements, and of these, if
// part is not whole, the elements in a triangle. first is the row minus the column of the tile's first element.
type span struct {
	rows, cols int
	part       part
	first      int
}

// columns returns the range of columns, lo to hi−1, that belong to the result in row r.
func (s span) columns(r int) (lo, hi int) {
	switch d := s.first + r; s.part {
	case lower:
		return 0, max(0, min(s.cols, d+1))
	case upper:
		return min(s.cols, max(0, d)), s.cols
	}
	return 0, s.cols
}

// patch updates the elements of a tile of C in span, through a copy of the tile, and no others.
func (s isa) patch(k int, a []float64, ars, acs int, b []float64, brs int, c []float64, ldc int, alpha, beta float64, sp span) {
	var tile [maxTile]float64
	mr, nr := s.shape()
	t := tile[:mr*nr]
	if beta != 0 {
		for r := range sp.rows {
			if lo, hi := sp.columns(r); lo < hi {
				copy(t[r*nr+lo:r*nr+hi], c[r*ldc+lo:])
			}
		}
	}
	s.full(k, a, ars, acs, b, brs, t, nr, alpha, beta)
	for r := range sp.rows {
		if lo, hi := sp.columns(r); lo < hi {
			copy(c[r*ldc+lo:r*ldc+hi], t[r*nr+lo:])
		}
	}
}
