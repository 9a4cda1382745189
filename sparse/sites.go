package sparse

import (
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
)

// mulTransRoot writes Rᵀφ for one example; dst and phi have one row for each output.
func mulTransRoot(dst, phi blas64.General, root []float64) {
	c := dst.Rows
	for j := range c {
		row := dst.Data[j*dst.Stride:][:dst.Cols]
		clear(row)
		for a := range c {
			if v := root[a*c+j]; v != 0 {
				floats.AddScaled(row, v, phi.Data[a*phi.Stride:][:phi.Cols])
			}
		}
	}
}

// residualTo writes D = k − φφᵀ of one example (E13); k is C×C.
func residualTo(d, k []float64, phi blas64.General) {
	c := phi.Rows
	for a := range c {
		pa := phi.Data[a*phi.Stride:][:phi.Cols]
		for b := range a + 1 {
			v := k[a*c+b] - floats.Dot(pa, phi.Data[b*phi.Stride:][:phi.Cols])
			d[a*c+b], d[b*c+a] = v, v
		}
	}
}
