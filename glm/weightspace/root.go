package weightspace

import (
	"context"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
)

// A Root is the root S of the posterior covariance S Sᵀ of a block of parameters. The block adds (JS)(JS)ᵀ to the
// covariance of an example, where J has the columns of its Jacobian for Parameters.
type Root struct {
	Parameters []int      // positions in θ
	S          *mat.Dense // Σ₀^½ U⁻¹ with H̃ = UᵀU, a row for each parameter
}

// Roots returns the roots of all blocks. A root of p parameters takes 8·p² bytes.
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
