package counterfactual

import (
	"context"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
)

// An effort says how accurately a linear system is solved.
type effort int

const (
	chordStep  effort = iota // by the preconditioner alone
	newtonStep               // to an error of a hundredth, in the norm of K + KΛK
	exactStep                // to rounding
)

const (
	// mostGradients bounds the steps of conjugate gradients of one solve.
	mostGradients = 200
	// negligible is the part of the right-hand side that rounding leaves of a residual.
	negligible = 1e-14
)

// solve returns X with (I + ΛK) x = b for each row b of the matrix b, and K x for each. It
// starts with the solution for the sites of the factor, which is exact in the rows of
// examples that are left out, and goes on with conjugate gradients in the metric of
// K + KΛK.
func (p *problem) solve(ctx context.Context, b *mat.Dense, lambda []float64, e effort) (x, kx *mat.Dense, err error) {
	x, kx, err = p.precondition(ctx, b)
	if err != nil || e == chordStep {
		return x, kx, err
	}
	rows, size := b.Dims()
	// The square of the error, relative to that of zero, at which a solve ends
	tolerance := 1e-24
	if e == newtonStep {
		tolerance = 1e-4
	}
	// b − (I + ΛK) x
	rest := mat.DenseCopyOf(b)
	first, last := make([]float64, rows), make([]float64, rows)
	open := make([]bool, rows)
	work := make([]float64, size)
	for i := range rows {
		first[i] = dense.Dot(b.RawRowView(i), kx.RawRowView(i))
		// Subtract (I + ΛK) x.
		copy(work, kx.RawRowView(i))
		mulLambda(work, lambda, p.m.c)
		floats.Add(work, x.RawRowView(i))
		floats.Sub(rest.RawRowView(i), work)
		open[i] = floats.Norm(rest.RawRowView(i), 2) > negligible*floats.Norm(b.RawRowView(i), 2)
	}
	direction, kdirection := mat.NewDense(rows, size, nil), mat.NewDense(rows, size, nil)
	for range mostGradients {
		if !slices.Contains(open, true) {
			return x, kx, nil
		}
		z, kz, err := p.precondition(ctx, rest)
		if err != nil {
			return nil, nil, err
		}
		for i := range rows {
			if !open[i] {
				continue
			}
			now := dense.Dot(rest.RawRowView(i), kz.RawRowView(i))
			if open[i] = now > 0; !open[i] {
				continue
			}
			beta := 0.0
			if last[i] > 0 {
				beta = now / last[i]
			}
			last[i] = now
			d, kd := direction.RawRowView(i), kdirection.RawRowView(i)
			floats.AddScaledTo(d, z.RawRowView(i), beta, d)
			floats.AddScaledTo(kd, kz.RawRowView(i), beta, kd)
			copy(work, kd)
			mulLambda(work, lambda, p.m.c)
			floats.Add(work, d)
			curvature := dense.Dot(kd, work)
			if open[i] = curvature > 0; !open[i] {
				continue
			}
			t := now / curvature
			floats.AddScaled(x.RawRowView(i), t, d)
			floats.AddScaled(kx.RawRowView(i), t, kd)
			floats.AddScaled(rest.RawRowView(i), -t, work)
			open[i] = now > tolerance*first[i]
		}
	}
	return x, kx, nil
}

// precondition returns z = (I + ΛK)⁻¹q = q − W K q for each row q, with the sites of W, and
// K z.
func (p *problem) precondition(ctx context.Context, q *mat.Dense) (z, kz *mat.Dense, err error) {
	z, kz = new(mat.Dense), new(mat.Dense)
	if err := p.mulKernelTo(ctx, z, q); err != nil {
		return nil, nil, err
	}
	if err := p.solveTo(ctx, z); err != nil {
		return nil, nil, err
	}
	z.Sub(q, z)
	return z, kz, p.mulKernelTo(ctx, kz, z)
}
