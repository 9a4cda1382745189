package cg

import (
	"context"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/par"
)

// columnRows is the number of rows in a tile of right-hand sides, the columns of N·C×k matrices. The tiles do not
// depend on the number of processors, so that sums do not either.
const columnRows = 512

// eachTile calls do for tiles [lo, hi) of n rows.
func eachTile(n int, do func(lo, hi int)) {
	// Without a deadline or an error from do there is nothing to return.
	_ = par.Do(context.Background(), par.Tiles(n, columnRows), func(t int) error {
		lo, hi := par.Bounds(t, n, columnRows)
		do(lo, hi)
		return nil
	})
}

// dots returns the products a_jᵀb_j of the columns.
func dots(a, b blas64.General) []float64 {
	k := a.Cols
	sums := make([]float64, par.Tiles(a.Rows, columnRows)*k)
	eachTile(a.Rows, func(lo, hi int) {
		sum := sums[lo/columnRows*k:][:k]
		for i := lo; i < hi; i++ {
			x, y := dense.Row(a, i), dense.Row(b, i)
			for j, v := range x {
				sum[j] += v * y[j]
			}
		}
	})
	for t := k; t < len(sums); t += k {
		floats.Add(sums[:k], sums[t:t+k])
	}
	return sums[:k:k]
}

// eachRow calls do with each row of y and of x.
func eachRow(y, x blas64.General, do func(y, x []float64)) {
	eachTile(y.Rows, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			do(dense.Row(y, i), dense.Row(x, i))
		}
	})
}

// addScaled adds s_j x_j to each column y_j.
func addScaled(y blas64.General, s []float64, x blas64.General) {
	eachRow(y, x, func(y, x []float64) {
		for j, v := range x {
			y[j] += s[j] * v
		}
	})
}

// add adds x to y.
func add(y, x blas64.General) { eachRow(y, x, floats.Add) }

// subtract takes x from y.
func subtract(y, x blas64.General) { eachRow(y, x, floats.Sub) }

// subFrom replaces y by x − y.
func subFrom(y, x blas64.General) {
	eachRow(y, x, func(y, x []float64) { floats.SubTo(y, x, y) })
}

// column returns v as a matrix of one column.
func column(v []float64) blas64.General { return dense.In(v, len(v), 1) }
