package network

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize/network/internal/graph"
)

// A Loss is a log likelihood; every gp.Likelihood is one. Expand returns log p(y|f) of one
// example and writes its gradient in f, length C, to residual. lambda and root are nil.
type Loss interface {
	Expand(residual, lambda, root, y, f []float64) (logp float64)
}

// A LogLik is Σ log p(y|f(x;θ)) of a network as a function of θ, with its gradient. It keeps
// scratch memory, so only one call may run at a time.
type LogLik struct {
	net     *Network
	sum     *gradientSum
	loss    Loss
	steps   int                          // in training, steps made so far
	factors func(step int) graph.Dropper // in training, the factors of the Dropouts
	running []statistics                 // in training, statistics of each batch normalization
}

// statistics are the running mean and variance of the channels of a batch normalization.
type statistics struct{ mean, variance []float64 }

// LogLik returns the log likelihood of the network outside of training: without Dropout and with
// the running statistics of its normalizations.
func (n *Network) LogLik(loss Loss) *LogLik {
	return &LogLik{net: n, sum: n.newGradientSum(), loss: loss}
}

// TrainingLogLik returns the log likelihood of the network as it acts in training. Each
// gradient is a step: Dropout nodes drop elements that depend on the seed and the number of the
// step, and a BatchNormalization uses the moments of the rows and updates its running statistics by
// them.
func (n *Network) TrainingLogLik(loss Loss, seed uint64) (*LogLik, error) {
	prog, err := n.trainingProgram()
	if err != nil {
		return nil, err
	}
	l := &LogLik{net: n, sum: newGradientSum(prog, nil), loss: loss, factors: func(step int) graph.Dropper { return graph.SeededDropper(seed, step) }}
	for _, norm := range prog.Norms {
		l.running = append(l.running, statistics{slices.Clone(norm.Start[0]), slices.Clone(norm.Start[1])})
	}
	return l, nil
}

// SetDropout makes factors write the factors by which a Dropout multiplies the elements of an
// example, for example to repeat those of another tool. They replace the random ones.
func (l *LogLik) SetDropout(factors func(dst []float64, step, layer, example int)) {
	l.factors = func(step int) graph.Dropper {
		return func(dst []float64, o *graph.Dropout, example int) { factors(dst, step, o.Layer, example) }
	}
}

// GradientTo returns Σ log p(y|f(x;θ)) over the rows of x, N×D, and y, and writes its
// gradient in θ to dst. dst and theta have length P; other sizes panic. A NaN or Inf in
// x or in an output is an error that names the row, and so is a log likelihood that is
// not a number.
func (l *LogLik) GradientTo(ctx context.Context, dst, theta []float64, x, y *mat.Dense) (float64, error) {
	rows := dense.Count(x)
	if len(dst) != l.net.prog.P || len(theta) != l.net.prog.P || rows != dense.Count(y) {
		panic("network: sizes of a gradient of the log likelihood differ")
	}
	if err := l.net.CheckInput(x); err != nil {
		return 0, err
	}
	clear(dst)
	l.sum.setTheta(theta)
	if l.factors != nil {
		l.sum.drop = l.factors(l.steps)
		l.steps++
	}
	value, err := l.sum.add(ctx, dst, x, logLik(l.loss, y, l.net.prog.C))
	if err != nil {
		return 0, err
	}
	for i, r := range l.running {
		norm, m := &l.sum.prog.Norms[i], l.sum.norms.Moments[i]
		if m.Count < 2 {
			return 0, fmt.Errorf("network: a batch normalization has one number a channel in a minibatch of %d; raise the batch", rows)
		}
		unbiased := m.Count / (m.Count - 1)
		for ch := range r.mean {
			r.mean[ch] = norm.Momentum*r.mean[ch] + (1-norm.Momentum)*m.Mean[ch]
			r.variance[ch] = norm.Momentum*r.variance[ch] + (1-norm.Momentum)*unbiased*m.Variance[ch]
		}
	}
	return value, nil
}

// Network returns the network with these parameters and, for training, the present running
// statistics.
func (l *LogLik) Network(theta []float64) (*Network, error) {
	net := l.net
	if len(l.running) > 0 {
		numbers := map[string][]float64{}
		for i, r := range l.running {
			norm := &l.sum.prog.Norms[i]
			numbers[norm.Mean], numbers[norm.Variance] = slices.Clone(r.mean), slices.Clone(r.variance)
		}
		var err error
		if net, err = net.withConstants(numbers); err != nil {
			return nil, err
		}
	}
	return net.WithTheta(theta)
}

// logLik returns the seeder of Σ log p(y|f) and its gradients in f.
func logLik(loss Loss, y *mat.Dense, c int) seeder {
	return func(u, f []float64, lo, hi int) (float64, error) {
		total := 0.0
		for i := lo; i < hi; i++ {
			at := (i - lo) * c
			logp := loss.Expand(u[at:at+c], nil, nil, y.RawRowView(i), f[at:at+c])
			if math.IsNaN(logp) {
				return 0, fmt.Errorf("network: the log likelihood of row %d is not a number; check its target", i)
			}
			total += logp
		}
		return total, nil
	}
}
