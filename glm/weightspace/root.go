package weightspace

import (
	"context"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
)

// A Root says how a block of parameters contributes to the covariance of an example: (JS)(JS)ᵀ, with J the columns of
// its Jacobian at Parameters.
type Root struct {
	Parameters []int      // positions in θ
	S          *mat.Dense // Σ₀^½ U⁻¹ with H̃ = UᵀU, a row for each parameter
}

// Roots returns the roots of all blocks. Each takes 8 times the square of its parameters in bytes.
func (w *BlockPosterior) Roots(ctx context.Context) ([]Root, error) {
	var all []Root
	for i, g := range w.groups {
		n := len(g.index)
		s := dense.New(n, n)
		for j := range n {
			s.Data[j*n+j] = 1
		}
		if err := w.h[i].half(ctx, s); err != nil {
			return nil, err
		}
		for j, p := range g.index {
			floats.Scale(w.white.Root[p], dense.Row(s, j))
		}
		all = append(all, Root{g.index, dense.View(s)})
	}
	return all, nil
}
