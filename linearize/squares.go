package linearize

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
)

// A SquaredModel is a Model that can sum the squares of its Jacobian without forming it. Every network.Network is
// one.
type SquaredModel interface {
	Model
	// AddSquares adds the diagonal of Σ_n J_nᵀ R_n R_nᵀ J_n over the rows of x, N×D, to dst, P numbers. roots has
	// R_n of each example, N·C×C.
	AddSquares(ctx context.Context, dst []float64, x, roots *mat.Dense) error
}

// A Squarer is a Source that can sum the squares of its Jacobian without forming it.
type Squarer interface {
	Source
	// CanSquare tells whether AddSquares may be called.
	CanSquare() bool
	// AddSquares adds the diagonal of Σ_n J_nᵀ R_n R_nᵀ J_n over all examples to dst, P numbers. roots returns R_n
	// of examples lo to hi−1, (hi−lo)·C×C, and is called for consecutive ranges.
	AddSquares(ctx context.Context, dst []float64, roots func(lo, hi int) *mat.Dense) error
}

var _ Squarer = (*stream)(nil)

// CanSquare implements Squarer.
func (s *stream) CanSquare() bool {
	_, ok := s.model.(SquaredModel)
	return ok
}

// AddSquares implements Squarer. It reads Tile examples at a time, so the sums do not depend on the stream's tiles.
func (s *stream) AddSquares(ctx context.Context, dst []float64, roots func(lo, hi int) *mat.Dense) error {
	m := s.model.(SquaredModel)
	_, c, _ := m.Dims()
	for lo, step := 0, Tile(c); lo < s.n; lo += step {
		if err := ctx.Err(); err != nil {
			return err
		}
		hi := min(lo+step, s.n)
		x, err := s.rows(lo, hi)
		if err != nil {
			return err
		}
		if err := m.AddSquares(ctx, dst, dense.Slice(x, 0, hi-lo), roots(lo, hi)); err != nil {
			return fmt.Errorf("linearize: examples from %d: %w", s.first+lo, err)
		}
	}
	return ctx.Err()
}
