package evaluate

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
)

// TRAK is that of Park et al. (2023). With φ = Pᵀ∇g the gradient of the Margin at a
// network times a random projection of signs, P×Dim, and p_i the probability that the
// network gives the class of training row i, the score is
// φ(x)ᵀ(ΦᵀΦ)⁻¹φ(x_i), a mean over networks, times the mean over networks of 1 − p_i.
type TRAK struct {
	Dim  int // columns of the projection; 0 means 512
	Seed uint64
	// Networks are those of the means, each with a projection of its own; nil means the
	// problem's network alone. The source trains each on a random half of the training
	// rows: a network that has seen row i gives its class about 1, so that 1 − p_i says
	// nothing about it.
	Networks []*network.Network
}

var _ Method = TRAK{}

// Attribute implements Method with the attribution "TRAK". A projection takes 8·P·Dim
// bytes. It is an error where Φ has less than full rank.
func (m TRAK) Attribute(ctx context.Context, p *Problem) ([]Attribution, error) {
	nets := m.Networks
	if nets == nil {
		nets = []*network.Network{p.Network}
	}
	var scores *mat.Dense
	weights := make([]float64, dense.Count(p.X))
	for k, net := range nets {
		terms, weight, err := m.Factors(ctx, p, net, k)
		if err != nil {
			return nil, err
		}
		if scores == nil {
			scores = terms
		} else {
			scores.Add(scores, terms)
		}
		floats.Add(weights, weight)
	}
	size := 1 / float64(len(nets)*len(nets))
	scores.Apply(func(_, i int, v float64) float64 { return v * weights[i] * size }, scores)
	return []Attribution{{"TRAK", scores}}, nil
}

// Factors returns what TRAK takes means of at one network: φ(x)ᵀ(ΦᵀΦ)⁻¹φ(x_i), T×N, and
// 1 − p_i, N numbers. Projections differ with k. Its errors are those of Attribute.
func (m TRAK) Factors(ctx context.Context, p *Problem, net *network.Network, k int) (terms *mat.Dense, weights []float64, err error) {
	if err := p.check(); err != nil {
		return nil, nil, err
	}
	if m.Dim == 0 {
		m.Dim = 512
	}
	_, _, params := net.Dims()
	n := dense.Count(p.X)
	if m.Dim < 1 || m.Dim > min(params, n) {
		return nil, nil, fmt.Errorf("evaluate: TRAK with a projection to %d numbers; it needs at least 1 and at most as many as there are parameters, %d, and training rows, %d", m.Dim, params, n)
	}
	err = gp.CheckMemory("a random projection", gp.TrainingExamples, n, p.MaxMemory, func(int) int64 {
		return memory.Mul(memory.Mul(8, int64(params)), int64(m.Dim+projectedRows))
	})
	if err != nil {
		return nil, nil, err
	}
	x, err := p.targets(ctx, net)
	if err != nil {
		return nil, nil, err
	}
	r, err := gradients(ctx, net, p.X, p.Y, func(w, y, f []float64) {
		Margin{}.GradientTo(w, y, f)
		weights = append(weights, 1/(1+math.Exp(Margin{}.Value(y, f))))
	})
	if err != nil {
		return nil, nil, err
	}
	signs := m.signs(params, k)
	test, train := dense.New(x.Len(), m.Dim), dense.New(n, m.Dim)
	if err := project(ctx, test, x, signs); err != nil {
		return nil, nil, err
	}
	if err := project(ctx, train, r, signs); err != nil {
		return nil, nil, err
	}
	gram := blas64.Symmetric{N: m.Dim, Stride: m.Dim, Uplo: blas.Upper, Data: make([]float64, m.Dim*m.Dim)}
	dense.Syrk(blas.Trans, 1, train, 0, gram)
	factor, ok := dense.Potrf(gram)
	if !ok {
		return nil, nil, fmt.Errorf("evaluate: the projected gradients of the %d training rows do not have rank %d; take a smaller projection", n, m.Dim)
	}
	// Φ(ΦᵀΦ)⁻¹, with ΦᵀΦ = UᵀU
	dense.Trsm(blas.Right, blas.NoTrans, 1, factor, test)
	dense.Trsm(blas.Right, blas.Trans, 1, factor, test)
	terms = mat.NewDense(x.Len(), n, nil)
	dense.Gemm(blas.NoTrans, blas.Trans, 1, test, train, 0, terms.RawMatrix())
	return terms, weights, nil
}

// signs returns projection k, elements ±1/√Dim.
func (m TRAK) signs(params, k int) blas64.General {
	rng := rand.New(rand.NewPCG(m.Seed, 0x7a4c+uint64(k)<<32))
	g := dense.New(params, m.Dim)
	size := 1 / math.Sqrt(float64(m.Dim))
	for i := 0; i < len(g.Data); i += 64 {
		bits := rng.Uint64()
		for j := i; j < min(i+64, len(g.Data)); j++ {
			g.Data[j] = size
			if bits&1 == 1 {
				g.Data[j] = -size
			}
			bits >>= 1
		}
	}
	return g
}

// projectedRows is the number of rows whose Jacobian is held as a matrix at a time.
const projectedRows = 128

// project writes J times the projection.
func project(ctx context.Context, dst blas64.General, b *linearize.Batch, signs blas64.General) error {
	for k := range par.Tiles(b.Len(), projectedRows) {
		lo, hi := par.Bounds(k, b.Len(), projectedRows)
		var j mat.Dense
		b.Slice(lo, hi).JacobianTo(&j)
		if err := dense.GemmContext(ctx, blas.NoTrans, blas.NoTrans, 1, j.RawMatrix(), signs, 0, dense.Rows(dst, lo, hi)); err != nil {
			return err
		}
	}
	return nil
}
