package certificate

import (
	"context"

	"gonum.org/v1/gonum/floats"

	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/linearize"
)

// A product multiplies with M over all dropped rows: M = S J C Jᵀ S, where the rows of S
// are √λ uᵀ, J is the Jacobian of the training examples and C the posterior covariance of
// the parameters on the kept rows, C = Σ₀ − Σ₀J_kᵀR B⁻¹RᵀJ_kΣ₀.
type product struct {
	d        *dropped
	products linearize.Products
	variance []float64 // diagonal of Σ₀
	outputs  []float64 // N·C
	params   []float64 // P
	parts    [][]float64
}

// to writes M v into dst.
func (m *product) to(ctx context.Context, dst, v []float64) error {
	c := m.d.outputs()
	clear(m.outputs)
	for j, i := range m.d.rows.Examples {
		floats.AddScaled(m.outputs[i*c:(i+1)*c], m.d.root[j]*v[j], m.d.rows.Directions.RawRowView(j))
	}
	if err := m.products.MulTransVecTo(ctx, m.params, m.outputs); err != nil {
		return err
	}
	// Multiply params by C.
	floats.Mul(m.params, m.variance)
	rows := m.d.post.Rows()
	h := make([]float64, rows.Len())
	err := m.each(ctx, func(_, lo, hi int) { rows.Slice(lo, hi).MulVecTo(h[lo:hi], m.params) })
	if err != nil {
		return err
	}
	m.d.post.SolveVec(h)
	// Subtract Σ₀J_kᵀh from params.
	if m.parts == nil {
		m.parts = make([][]float64, par.Tiles(len(h), productTile))
		for i := range m.parts {
			m.parts[i] = make([]float64, rows.P)
		}
	}
	err = m.each(ctx, func(part, lo, hi int) { rows.Slice(lo, hi).MulTransVecTo(m.parts[part], h[lo:hi]) })
	if err != nil {
		return err
	}
	// Add the parts in their order, so that the sum does not depend on which worker computed which.
	for _, part := range m.parts {
		for i, v := range part {
			m.params[i] -= m.variance[i] * v
		}
	}
	if err := m.products.MulVecTo(ctx, m.outputs, m.params); err != nil {
		return err
	}
	for j, i := range m.d.rows.Examples {
		dst[j] = m.d.root[j] * floats.Dot(m.d.rows.Directions.RawRowView(j), m.outputs[i*c:(i+1)*c])
	}
	return nil
}

// productTile is how many kept rows one worker multiplies with at a time.
const productTile = 1024

// each calls do for ranges of the kept rows.
func (m *product) each(ctx context.Context, do func(part, lo, hi int)) error {
	n := m.d.post.Kept().Len()
	return par.Do(ctx, par.Tiles(n, productTile), func(i int) error {
		lo, hi := par.Bounds(i, n, productTile)
		do(i, lo, hi)
		return nil
	})
}
