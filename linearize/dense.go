package linearize

import (
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"
)

// rowRange returns rows [i, j) of m as a view; it allows i == j.
func rowRange(m *mat.Dense, i, j int) *mat.Dense {
	if m == nil {
		return nil
	}
	raw := m.RawMatrix()
	return view(blas64.General{Rows: j - i, Cols: raw.Cols, Stride: raw.Stride, Data: raw.Data[i*raw.Stride:]})
}

// everyRow returns rows c, c+step, … of m as a view.
func everyRow(m *mat.Dense, c, step int) *mat.Dense {
	if m == nil {
		return nil
	}
	raw := m.RawMatrix()
	return view(blas64.General{Rows: raw.Rows / step, Cols: raw.Cols, Stride: raw.Stride * step, Data: raw.Data[c*raw.Stride:]})
}

func view(g blas64.General) *mat.Dense {
	if g.Rows == 0 {
		return new(mat.Dense)
	}
	g.Data = g.Data[:(g.Rows-1)*g.Stride+g.Cols]
	var m mat.Dense
	m.SetRawMatrix(g)
	return &m
}

func rowsOf(m *mat.Dense) int {
	r, _ := m.Dims()
	return r
}

func axpy(dst []float64, alpha float64, x []float64) {
	for i, v := range x {
		dst[i] += alpha * v
	}
}

func dot(x, y []float64) float64 {
	s := 0.0
	for i, v := range x {
		s += v * y[i]
	}
	return s
}

func general(data []float64, rows, cols int) blas64.General {
	return blas64.General{Rows: rows, Cols: cols, Stride: max(1, cols), Data: data}
}

// stack copies the rows of all parts below one another; nil if one is nil.
func stack(parts []*mat.Dense) *mat.Dense {
	rows, cols := 0, 0
	for _, p := range parts {
		if p == nil {
			return nil
		}
		r, c := p.Dims()
		rows, cols = rows+r, max(cols, c)
	}
	if rows == 0 || cols == 0 {
		return new(mat.Dense)
	}
	out := mat.NewDense(rows, cols, nil)
	at := 0
	for _, p := range parts {
		for i := range rowsOf(p) {
			copy(out.RawRowView(at), p.RawRowView(i))
			at++
		}
	}
	return out
}
