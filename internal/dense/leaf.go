package dense

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
)

// leaf is the order up to which a matrix is factored in one buffer. A row of the buffer has room for a tile that
// starts at the last column, so that the kernels can update whole tiles. Elements that they write outside the
// triangle are never read.
const (
	leaf   = 64
	leafLd = leaf + 24
)

// factorLeaf factors a through a copy that is laid out as an upper triangle.
func factorLeaf(a blas64.Symmetric) bool {
	buf := getBuffer(leaf * leafLd)
	defer buf.free()
	u := buf.s
	for i := range a.N {
		if a.Uplo == blas.Upper {
			copy(u[i*leafLd+i:], a.Data[i*a.Stride+i:i*a.Stride+a.N])
			continue
		}
		for j, v := range a.Data[i*a.Stride : i*a.Stride+i+1] {
			u[j*leafLd+i] = v
		}
	}
	ok := factorUpper(active, u, a.N)
	for i := range a.N {
		if a.Uplo == blas.Upper {
			copy(a.Data[i*a.Stride+i:i*a.Stride+a.N], u[i*leafLd+i:])
			continue
		}
		row := a.Data[i*a.Stride : i*a.Stride+i+1]
		for j := range row {
			row[j] = u[j*leafLd+i]
		}
	}
	return ok
}

// factorUpper factors u as UᵀU, mr rows at a time. For these rows it factors their own columns one by one, gets the
// columns to the right by a triangular solve, and subtracts the products of these rows from all rows below.
func factorUpper(s isa, u []float64, n int) bool {
	var diag [64]float64
	mr, nr := s.shape()
	t := diag[:mr*mr]
	for p := 0; p < n; p += mr {
		rows := u[p*leafLd:]
		if !factorTile(t, rows[p:], mr, min(mr, n-p)) {
			return false
		}
		for j := p + mr; j < n; j += nr {
			s.solve(t, rows[j:], leafLd)
		}
		for i := p + mr; i < n; i += mr {
			for j := i; j < n; j += nr {
				s.full(mr, rows[i:], 1, leafLd, rows[j:], leafLd, u[i*leafLd+j:], leafLd, -1, 1)
			}
		}
	}
	return true
}

// factorTile factors the first n rows and columns of u. It writes to t what the tile solve reads: Uᵀ column by
// column, with stride mr, and the reciprocals of its diagonal.
func factorTile(t, u []float64, mr, n int) bool {
	for i := range n {
		row := u[i*leafLd+i:][:n-i]
		if !(row[0] > 0) {
			return false
		}
		row[0] = math.Sqrt(row[0])
		d := 1 / row[0]
		t[i*mr+i] = d
		for j := 1; j < len(row); j++ {
			row[j] *= d
			t[i*mr+i+j] = row[j]
		}
		for r := 1; r < len(row); r++ {
			v, y := row[r], u[(i+r)*leafLd+i:][:len(row)]
			for j := r; j < len(row); j++ {
				y[j] -= v * row[j]
			}
		}
	}
	return true
}
