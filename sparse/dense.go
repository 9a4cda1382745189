package sparse

import (
	"gonum.org/v1/gonum/blas/blas64"
)

// general returns a rows×cols matrix in data, or in new memory where data is
// too short.
func general(rows, cols int, data []float64) blas64.General {
	if len(data) < rows*cols {
		data = make([]float64, rows*cols)
	}
	return blas64.General{Rows: rows, Cols: cols, Stride: max(1, cols), Data: data[:rows*cols]}
}
