package network

import (
	"context"
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/linearize"
)

// Products returns the products of the Jacobian at the rows of x, N×D, which must
// not change afterwards, with vectors. Jᵀu takes one forward and one backward pass.
// J v takes two forward passes: it is the central difference of f at θ* ± t v, with
// t = √ε (1 + max|θ*|)/max|v| and ε = 2⁻⁵² [gprior algorithm 1]. It is accurate to about eight
// digits. Only the activations of a few chunks of examples are held, where the Batch of Linearize
// holds C gradients of each example and layer.
func (n *Network) Products(x *mat.Dense) (linearize.Products, error) {
	if x.IsEmpty() {
		return nil, errors.New("network: no examples to multiply with")
	}
	if err := n.CheckInput(x); err != nil {
		return nil, err
	}
	rows, _ := x.Dims()
	return &products{net: n, rows: rows, tile: rows, load: func(int, int) (*mat.Dense, error) { return x, nil }}, nil
}

// LoadedProducts is Products for inputs that do not fit into memory. Each pass loads them again, tile examples or a
// few more at a time. load returns rows lo to hi−1 of the inputs, (hi−lo)×D, as for linearize.NewSource. An error
// of load, and a NaN or Inf in the inputs, is an error of the product. LoadedProducts panics unless rows ≥ 1 and
// tile ≥ 1.
func (n *Network) LoadedProducts(rows, tile int, load func(lo, hi int) (*mat.Dense, error)) linearize.Products {
	if rows < 1 || tile < 1 {
		panic("network: products need examples and a positive tile")
	}
	tile = par.Tiles(tile, n.prog.Chunk) * n.prog.Chunk // whole chunks, so that the sums do not depend on the tile
	return &products{net: n, rows: rows, tile: tile, load: func(lo, hi int) (*mat.Dense, error) {
		x, err := load(lo, hi)
		if err != nil {
			return nil, fmt.Errorf("network: loading examples %d to %d: %w", lo, hi-1, err)
		}
		if err := n.CheckInput(x); err != nil {
			return nil, fmt.Errorf("network: examples from %d: %w", lo, err)
		}
		return x, nil
	}}
}

type products struct {
	net        *Network
	rows, tile int
	load       func(lo, hi int) (*mat.Dense, error)
	sum        *gradientSum // nil before the first product Jᵀu
}

var _ linearize.Products = (*products)(nil)

// each calls do with the inputs of all examples, tile by tile.
func (p *products) each(ctx context.Context, do func(lo, hi int, x *mat.Dense) error) error {
	for lo := 0; lo < p.rows; lo += p.tile {
		if err := ctx.Err(); err != nil {
			return err
		}
		hi := min(lo+p.tile, p.rows)
		x, err := p.load(lo, hi)
		if err != nil {
			return err
		}
		if err := do(lo, hi, x); err != nil {
			return err
		}
	}
	return nil
}

// MulVecTo implements linearize.Products.
func (p *products) MulVecTo(ctx context.Context, dst, v []float64) error {
	size := floats.Norm(v, math.Inf(1))
	if size == 0 {
		clear(dst)
		return ctx.Err()
	}
	step := math.Sqrt(epsilon) * (1 + floats.Norm(p.net.theta, math.Inf(1))) / size
	var moved [2]*Network // the network at θ* ± t v
	for i, t := range []float64{step, -step} {
		var err error
		if moved[i], err = p.net.WithTheta(floats.AddScaledTo(make([]float64, len(v)), p.net.theta, t, v)); err != nil {
			return err
		}
	}
	c := p.net.prog.C
	return p.each(ctx, func(lo, hi int, x *mat.Dense) error {
		after, err := moved[0].forward(ctx, x)
		if err != nil {
			return err
		}
		before, err := moved[1].forward(ctx, x)
		if err != nil {
			return err
		}
		// J v = (f(x;θ* + t v) − f(x;θ* − t v))/2t
		f := dst[lo*c : hi*c]
		floats.SubTo(f, after.RawMatrix().Data, before.RawMatrix().Data)
		floats.Scale(1/(2*step), f)
		return nil
	})
}

// epsilon is the distance from 1 to the next float64.
const epsilon = 1.0 / (1 << 52)

// MulTransVecTo implements linearize.Products.
func (p *products) MulTransVecTo(ctx context.Context, dst, u []float64) error {
	if p.sum == nil {
		p.sum = p.net.newGradientSum()
	}
	clear(dst)
	c := p.net.prog.C
	return p.each(ctx, func(first, _ int, x *mat.Dense) error {
		_, err := p.sum.add(ctx, dst, x, func(seed, _ []float64, lo, hi int) (float64, error) {
			copy(seed, u[(first+lo)*c:(first+hi)*c])
			return 0, nil
		})
		return err
	})
}
