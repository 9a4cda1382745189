package evaluate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize/network"
)

// GradientDot is the product of the gradients of the target and of the training row's
// log p, and their cosine, at θ*.
type GradientDot struct{}

var _ Method = GradientDot{}

// Attribute implements Method with the attributions "gradient dot" and "gradient cosine".
// A cosine with a gradient of zero is zero.
func (GradientDot) Attribute(ctx context.Context, p *Problem) ([]Attribution, error) {
	dot, test, train, err := p.dot(ctx, p.Network)
	if err != nil {
		return nil, err
	}
	cos := mat.DenseCopyOf(dot)
	cos.Apply(func(t, i int, v float64) float64 {
		if size := math.Sqrt(test[t] * train[i]); size > 0 {
			return v / size
		}
		return 0
	}, cos)
	return []Attribution{{"gradient dot", dot}, {"gradient cosine", cos}}, nil
}

// dot returns the products of gradients at net, T×N, and the squares of their norms.
func (p *Problem) dot(ctx context.Context, net *network.Network) (dot *mat.Dense, test, train []float64, err error) {
	if err := p.check(); err != nil {
		return nil, nil, nil, err
	}
	k, err := p.unit(net)
	if err != nil {
		return nil, nil, nil, err
	}
	x, err := p.targets(ctx, net)
	if err != nil {
		return nil, nil, nil, err
	}
	r, err := p.losses(ctx, net)
	if err != nil {
		return nil, nil, nil, err
	}
	dot = new(mat.Dense)
	if err := k.BlockContextTo(ctx, sized(dot, x.Len(), r.Len()), x, r); err != nil {
		return nil, nil, nil, err
	}
	var a, b mat.Dense
	k.DiagTo(&a, x)
	k.DiagTo(&b, r)
	return dot, dense.Flat(&a), dense.Flat(&b), nil
}

// sized returns m with r×c elements.
func sized(m *mat.Dense, r, c int) *mat.Dense {
	dense.SizeTo(m, r, c)
	return m
}

// TracIn adds up GradientDot over the checkpoints of the problem, each times its step
// size (Pruthi et al. 2020).
type TracIn struct{}

var _ Method = TracIn{}

// Attribute implements Method with the attribution "TracIn".
func (TracIn) Attribute(ctx context.Context, p *Problem) ([]Attribution, error) {
	if len(p.Checkpoints) == 0 {
		return nil, errors.New("evaluate: TracIn needs checkpoints")
	}
	var sum mat.Dense
	for i, at := range p.Checkpoints {
		dot, _, _, err := p.dot(ctx, at.Network)
		if err != nil {
			return nil, fmt.Errorf("evaluate: checkpoint %d: %w", i, err)
		}
		dot.Scale(at.Rate, dot)
		if i == 0 {
			sum.CloneFrom(dot)
		} else {
			sum.Add(&sum, dot)
		}
	}
	return []Attribution{{"TracIn", &sum}}, nil
}

// Random are independent normal numbers, which any method must beat.
type Random struct{ Seed uint64 }

var _ Method = Random{}

// Attribute implements Method with the attribution "random".
func (r Random) Attribute(_ context.Context, p *Problem) ([]Attribution, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(r.Seed, 0x2a2d))
	scores := mat.NewDense(dense.Count(p.TestX), dense.Count(p.X), nil)
	scores.Apply(func(_, _ int, _ float64) float64 { return rng.NormFloat64() }, scores)
	return []Attribution{{"random", scores}}, nil
}
