package ntk

import (
	"context"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/linearize"
)

// A Kernel is the Gaussian process prior of a linearized network (E2). An empty
// dst is sized. Any other wrong size panics. The former content of dst is ignored.
type Kernel interface {
	// MeanTo writes m(x) = F + J(μ₀−θ*), stacked, length N·C.
	MeanTo(dst []float64, b *linearize.Batch)
	// BlockTo writes κ(a, b), Na·C × Nb·C. With a == b one triangle is
	// computed and mirrored.
	BlockTo(dst *mat.Dense, a, b *linearize.Batch)
	// DiagTo writes κ(x_n, x_n) for each example, N·C × C.
	DiagTo(dst *mat.Dense, b *linearize.Batch)
}

// BlockContextTo writes κ(a, b) by k, and stops when ctx is done: between tiles where k has
// a method BlockContextTo, as an NTK has, and else before the block. It then returns
// ctx.Err() and leaves dst undefined.
func BlockContextTo(ctx context.Context, k Kernel, dst *mat.Dense, a, b *linearize.Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s, ok := k.(interface {
		BlockContextTo(ctx context.Context, dst *mat.Dense, a, b *linearize.Batch) error
	}); ok {
		return s.BlockContextTo(ctx, dst, a, b)
	}
	k.BlockTo(dst, a, b)
	return nil
}

// A MulToer is a Kernel that multiplies without forming κ: dst = κ(a, b) v,
// with v Nb·C × k and dst Na·C × k.
type MulToer interface {
	MulTo(dst *mat.Dense, a, b *linearize.Batch, v *mat.Dense)
}

// A Preparer is a Kernel that prepares a right side v for many products κ(a, b) v.
type Preparer interface {
	// Prepare returns κ(·, b) v, with v Nb·C × k. It keeps b and v.
	Prepare(b *linearize.Batch, v *mat.Dense) Product
}

// A Product is κ(·, b) v for fixed b and v. It is safe for concurrent use.
type Product interface {
	// MulTo writes κ(a, b) v, Na·C × k, where C is the number of outputs of a.
	// It may differ from that of b.
	MulTo(dst *mat.Dense, a *linearize.Batch)
}

// A Prior is N(μ₀, Σ₀) over θ with diagonal Σ₀. gptest.Prior tests one.
type Prior interface {
	MeanTo(dst []float64)     // μ₀, length P
	VarianceTo(dst []float64) // diagonal of Σ₀, length P
}

// A Grouped prior has parameters that share a variance factor (E10). The
// groups partition θ. A prior without groups is one group.
type Grouped interface {
	Prior
	Groups() []Group
}
