package network

import (
	"context"
	"errors"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/linearize"
)

// Products returns the products of the Jacobian at the rows of x, N×D, which must
// not change afterwards, with vectors. Jᵀu takes one forward and one backward pass.
// J v takes two forward passes: it is the central difference of f at θ* ± t v, with
// t = √ε (1 + max|θ*|)/max|v| and ε = 2⁻⁵² [gprior algorithm 1]. It is right to about
// eight digits. Only the activations of a few chunks of examples are held, where the
// Batch of Linearize holds C gradients of each example and layer.
func (n *Network) Products(x *mat.Dense) (linearize.Products, error) {
	if x.IsEmpty() {
		return nil, errors.New("network: no examples to multiply with")
	}
	if err := n.CheckInput(x); err != nil {
		return nil, err
	}
	return &products{net: n, x: x, sum: newGradientSum(n.prog, n.static)}, nil
}

type products struct {
	net *Network
	x   *mat.Dense
	sum *gradientSum
}

var _ linearize.Products = (*products)(nil)

// MulVecTo implements linearize.Products.
func (p *products) MulVecTo(ctx context.Context, dst, v []float64) error {
	size := floats.Norm(v, math.Inf(1))
	if size == 0 {
		clear(dst)
		return ctx.Err()
	}
	step := math.Sqrt(epsilon) * (1 + floats.Norm(p.net.theta, math.Inf(1))) / size
	outputs := func(t float64) (*mat.Dense, error) {
		at, err := p.net.WithTheta(floats.AddScaledTo(make([]float64, len(v)), p.net.theta, t, v))
		if err != nil {
			return nil, err
		}
		return at.Forward(ctx, p.x)
	}
	after, err := outputs(step)
	if err != nil {
		return err
	}
	before, err := outputs(-step)
	if err != nil {
		return err
	}
	// J v = (f(x;θ* + t v) − f(x;θ* − t v))/2t
	floats.SubTo(dst, after.RawMatrix().Data, before.RawMatrix().Data)
	floats.Scale(1/(2*step), dst)
	return nil
}

// epsilon is the distance from 1 to the next float64.
const epsilon = 1.0 / (1 << 52)

// MulTransVecTo implements linearize.Products.
func (p *products) MulTransVecTo(ctx context.Context, dst, u []float64) error {
	clear(dst)
	c := p.net.prog.C
	_, err := p.sum.add(ctx, dst, p.x, func(seed, _ []float64, lo, hi int) (float64, error) {
		copy(seed, u[lo*c:hi*c])
		return 0, nil
	})
	return err
}
