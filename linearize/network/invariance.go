package network

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network/internal/graph"
)

// TrainingInvariances returns what linearize.Invariances does at the rows of x, N×D,
// with J w of the network in training. A BatchNormalization then takes its statistics
// from the rows of x, so that they depend on the parameters before it, whose scale then does not
// change the outputs. θ* of such a network is not a mode for any prior precision, although with
// running statistics the outputs do depend on this scale. ‖J‖ is that of the network with running
// statistics. Without a BatchNormalization the result is that of linearize.Invariances.
//
// ‖J w‖ is estimated from the products of J w with a few vectors of random signs, which one forward and a few
// backward passes give for all layers together. In addition it takes one linearization, and it holds the
// activations of all rows in memory: a few hundred rows are enough.
func (n *Network) TrainingInvariances(ctx context.Context, x *mat.Dense) ([]linearize.Invariance, error) {
	b, err := n.Linearize(ctx, x)
	if err != nil {
		return nil, err
	}
	layers, err := linearize.Invariances(ctx, b, n.theta)
	if err != nil || !slices.Contains(n.prog.Operators, "BatchNormalization") {
		return layers, err
	}
	prog, err := n.trainingProgram()
	if err != nil || len(prog.Norms) == 0 {
		return layers, err
	}
	sum := newGradientSum(prog, nil)
	sum.drop = func(dst []float64, _ *graph.Dropout, _ int) {
		for i := range dst {
			dst[i] = 1
		}
	}
	sum.setTheta(n.theta)
	rows, _ := x.Dims()
	chunk, err := sum.forwardTogether(ctx, x)
	if err != nil {
		return nil, err
	}
	tiles := par.Tiles(rows, chunk)
	u, parts, rng := make([][]float64, tiles), make([][]float64, tiles), rand.New(rand.NewPCG(1, 2))
	for i := range u {
		lo, hi := par.Bounds(i, rows, chunk)
		if _, err := sum.norms.State(i).Outputs(lo); err != nil {
			return nil, err
		}
		u[i] = make([]float64, (hi-lo)*prog.C)
	}
	grad, squares := make([]float64, prog.P), map[*linearize.Invariance]float64{}
	for range scaleProbes {
		for i := range u {
			for k := range u[i] {
				u[i][k] = float64(2*rng.IntN(2) - 1)
			}
			parts[i] = sum.part(i)
		}
		if err := sum.norms.AddGradients(ctx, parts, u); err != nil {
			return nil, err
		}
		clear(grad)
		for _, part := range parts {
			dense.Axpy(grad, 1, part)
		}
		for i := range layers {
			l, whole := &layers[i], 0.0
			for t := range l.Tensors {
				uJW := 0.0 // uᵀJw
				for _, s := range l.Tensors[t].Spans {
					uJW += dense.Dot(grad[s.Offset:s.Offset+s.Len()], n.theta[s.Offset:s.Offset+s.Len()])
				}
				squares[&l.Tensors[t]] += uJW * uJW
				whole += uJW
			}
			squares[l] += whole * whole
			if l.Groups == nil {
				continue
			}
			nodes := make([]float64, len(l.Groups[0])) // uᵀJw of each node
			l.AddNodeDots(nodes, grad, n.theta)
			for _, groups := range l.Groups {
				size := len(nodes) / len(groups)
				for g := range groups {
					uJW := floats.Sum(nodes[g*size : (g+1)*size])
					squares[&groups[g]] += uJW * uJW
				}
			}
		}
	}
	for v, sum := range squares {
		if v.JW = math.Sqrt(sum / scaleProbes); math.IsNaN(sum) {
			return nil, errors.New("network: an output is not a number with the statistics of these rows; " +
				"give at least two different rows")
		}
	}
	return layers, nil
}

// scaleProbes is the number of vectors u of random signs from which E (uᵀJw)² = ‖Jw‖² is estimated. With eight
// vectors, a layer whose ratio is ten times the bound is taken for invariant with probability 1e-7.
const scaleProbes = 8
