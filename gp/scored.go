package gp

import (
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
)

const (
	// mostCurved bounds the directions of curvedDual. Each takes two vectors of N·C
	// numbers, and about as many are needed as a refit takes steps of Fisher scoring.
	mostCurved = 200
	// curvedTol is the relative residual at which curvedDual ends.
	curvedTol = 1e-13
)

// curvedDual returns (I + WK)⁻¹q, where W is the curvature −∂²log p/∂f² at the mode in
// place of its expectation Λ, by GMRES with (I + ΛK)⁻¹ as the preconditioner (E10).
func (e *rowSolver) curvedDual(ctx context.Context, q []float64, y *Targets) ([]float64, error) {
	c := e.outputs()
	excess := mat.NewDense(e.g.n, c, nil) // W − Λ
	for i := range e.x.Len() {
		block := excess.RawMatrix().Data[i*c*c : (i+1)*c*c]
		y.curvatureTo(block, i, e.sites.F.RawRowView(i))
		floats.Sub(block, dense.Contiguous(dense.Slice(e.sites.Lambda, i*c, (i+1)*c)))
	}
	apart := newBlockDiag(excess)
	// The Krylov vectors v, orthonormal, and Kv.
	var v, kv [][]float64
	first, kfirst, _, err := e.dual(ctx, q)
	if err != nil {
		return nil, err
	}
	norm := floats.Norm(first, 2)
	add := func(w, kw []float64, size float64) {
		floats.Scale(1/size, w)
		floats.Scale(1/size, kw)
		v, kv = append(v, w), append(kv, kw)
	}
	add(first, kfirst, norm)
	// The Hessenberg matrix by columns, each turned into a triangular one by rotations.
	var columns [][]float64
	var cos, sin []float64
	rhs := []float64{norm}
	for k := 0; k < min(mostCurved, len(q)) && math.Abs(rhs[k]) > curvedTol*norm; k++ {
		// (I + ΛK)⁻¹(I + WK)v = v + (I + ΛK)⁻¹(W − Λ)Kv
		rest := slices.Clone(kv[k])
		apart.mulRow(rest, 0)
		w, kw, _, err := e.dual(ctx, rest)
		if err != nil {
			return nil, err
		}
		floats.Add(w, v[k])
		floats.Add(kw, kv[k])
		column := make([]float64, k+2)
		for range 2 { // once more, for what rounding leaves
			for j := range v {
				h := floats.Dot(v[j], w)
				floats.AddScaled(w, -h, v[j])
				floats.AddScaled(kw, -h, kv[j])
				column[j] += h
			}
		}
		column[k+1] = floats.Norm(w, 2)
		next := column[k+1]
		for j := range k {
			column[j], column[j+1] = cos[j]*column[j]+sin[j]*column[j+1], -sin[j]*column[j]+cos[j]*column[j+1]
		}
		size := math.Hypot(column[k], column[k+1])
		cos, sin = append(cos, column[k]/size), append(sin, column[k+1]/size)
		column[k], column[k+1] = size, 0
		columns = append(columns, column)
		rhs = append(rhs, -sin[k]*rhs[k])
		rhs[k] *= cos[k]
		if next <= 1e-300 {
			break
		}
		add(w, kw, next)
	}
	z := make([]float64, len(q))
	for k := len(columns) - 1; k >= 0; k-- {
		at := rhs[k] / columns[k][k]
		for j := range k {
			rhs[j] -= at * columns[k][j]
		}
		floats.AddScaled(z, at, v[k])
	}
	return z, nil
}
