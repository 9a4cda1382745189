package network

import (
	"context"
	"errors"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network/internal/graph"
)

// TrainingInvariances returns what linearize.Invariances does at the rows of x, N×D,
// with J w of the network in training. A BatchNormalization then takes its statistics
// from the rows of x, so that they follow the parameters before it, whose scale does not
// change the outputs: θ* of such a network is a mode for no prior precision, although
// with running statistics the outputs do depend on this scale. ‖J‖ is that of the network
// in use. Without a BatchNormalization the result is that of linearize.Invariances.
//
// J w is a central difference with parameters 1 ± 1e-4 times as large. It takes one
// linearization, and two forward passes for each layer and tensor, with the activations
// of all rows in memory: a few hundred rows are enough.
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
	for i := range layers {
		l := &layers[i]
		for t := range l.Tensors {
			if l.Tensors[t].JW, err = sum.scaleSlope(ctx, n.theta, x, l.Tensors[t].Spans); err != nil {
				return nil, err
			}
		}
		if l.JW, err = sum.scaleSlope(ctx, n.theta, x, l.Spans); err != nil {
			return nil, err
		}
	}
	return layers, nil
}

// scaleStep is the relative change of the parameters for a central difference.
const scaleStep = 1e-4

// scaleSlope returns the norm of the derivative of all outputs in the log of a factor
// on the parameters of the spans.
func (g *gradientSum) scaleSlope(ctx context.Context, theta []float64, x *mat.Dense, spans []linearize.Span) (float64, error) {
	rows, _ := x.Dims()
	var f [2][]float64 // outputs with batch normalization, N·C
	for k, factor := range []float64{1 + scaleStep, 1 - scaleStep} {
		scaled := slices.Clone(theta)
		for _, s := range spans {
			floats.Scale(factor, scaled[s.Offset:s.Offset+s.Len()])
		}
		g.setTheta(scaled)
		chunk, err := g.forwardTogether(ctx, x)
		if err != nil {
			return 0, err
		}
		for i := range par.Tiles(rows, chunk) {
			lo, _ := par.Bounds(i, rows, chunk)
			part, err := g.norms.State(i).Outputs(lo)
			if err != nil {
				return 0, err
			}
			f[k] = append(f[k], part...)
		}
		if slices.ContainsFunc(f[k], math.IsNaN) {
			return 0, errors.New("network: an output is not a number with the statistics of these rows; " +
				"give at least two different rows")
		}
	}
	return floats.Distance(f[0], f[1], 2) / (2 * scaleStep), nil
}
