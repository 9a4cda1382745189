package gp

import (
	"context"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize"
)

// A Reduction says how a posterior answers from the kernel with R rows alone, by products: with the row vector k of
// κ(x,·) the covariance of an example is κ(x,x) − kS(kS)ᵀ (E6), (E13).
type Reduction struct {
	Rows  *linearize.Batch // M examples of K outputs; R = M·K
	S     *mat.Dense       // R×r
	Mean  []float64        // of the dual mean, which is m(x) + k·Mean; R numbers
	Terms *mat.Dense       // R×N: k·Terms holds the terms C(x,x_i) b_i of the training examples (E14); nil for none
}

// A Reducible posterior gives its Reduction. terms asks for Terms too, where there are some.
type Reducible interface {
	Reduction(ctx context.Context, terms bool) (*Reduction, error)
}

var (
	_ Reducible = (*Exact)(nil)
	_ Reducible = (*Thinned)(nil)
)

// Reduction implements Reducible. The rows are the training examples, and S is R U⁻¹ with B = UᵀU. It takes 8·(N·C)²
// bytes, and as much for the terms.
func (e *Exact) Reduction(ctx context.Context, terms bool) (*Reduction, error) {
	return e.s.reduction(ctx, terms)
}

func (e *rowSolver) reduction(ctx context.Context, terms bool) (*Reduction, error) {
	n, c := e.g.n, e.outputs()
	identity := func() *mat.Dense {
		m := mat.NewDense(n, n, nil)
		for i := range n {
			m.Set(i, i, 1)
		}
		return m
	}
	r := &Reduction{Rows: e.x, S: identity(), Mean: e.alpha}
	if err := e.f.half(ctx, r.S.RawMatrix()); err != nil || !terms {
		return r, err
	}
	// C_*n = k (I − R B⁻¹ RᵀK) (E14)
	d := identity()
	if err := e.subtractSolved(ctx, d.RawMatrix(), dense.New(n, n)); err != nil {
		return nil, err
	}
	r.Terms = mat.NewDense(n, n/c, nil)
	for i := range n {
		row, to := d.RawRowView(i), r.Terms.RawRowView(i)
		for j, v := range row {
			to[j/c] += v * e.b[j]
		}
	}
	return r, nil
}

// Reduction implements Reducible. The rows are the kept ones. There are no terms, which the other rows have too.
func (t *Thinned) Reduction(ctx context.Context, _ bool) (*Reduction, error) {
	r, err := t.e.reduction(ctx, false)
	if r != nil {
		r.Mean = nil
	}
	return r, err
}
