// Package train finds the parameters of a network that maximize the log likelihood of training examples under a
// Gaussian prior. This is the mode at which the other packages linearize.
//
//	net, result, err := train.MAP(ctx, net, x, y, glm.Bernoulli{}, nil)
package train

import (
	"context"
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize/network"
)

// Stages in Options.Progress.
const (
	StageAdam  = "adam"   // epochs of Adam
	StageSGD   = "sgd"    // epochs of SGD
	StageLBFGS = "l-bfgs" // iterations of L-BFGS
)

// A Result reports how training ended. Its numbers are for the network as it predicts: without Dropout, and with
// running statistics.
type Result struct {
	Objective    float64 // negative log posterior, without the prior's normalization
	LogLik       float64 // Σ log p(y|f)
	GradientNorm float64 // Euclidean norm of the objective's gradient at the returned parameters
	Steps        int     // steps on minibatches
	Epochs       int     // epochs of these steps; the last one may be incomplete
	Iterations   int     // iterations of L-BFGS

	BestEpoch     int     // epoch whose parameters were kept, from 1; 0 without Validation
	ValidationNLL float64 // mean negative log likelihood of the validation rows after it; 0 without
	Warnings      []error
}

// objective is the negative log posterior of a network's parameters.
type objective struct {
	loglik *network.LogLik
	opt    Options
}

// eval writes the gradient at theta to grad and returns the objective and Σ log p(y|f). In the objective and its
// gradient the log likelihood counts weight times.
func (o *objective) eval(ctx context.Context, grad, theta []float64, x, y *mat.Dense, weight float64) (value, loglik float64, err error) {
	if loglik, err = o.loglik.GradientTo(ctx, grad, theta, x, y); err != nil {
		return 0, 0, err
	}
	value = -weight * loglik
	for i := range grad {
		d, precision := theta[i], 1.0
		if o.opt.Mean != nil {
			d -= o.opt.Mean[i]
		}
		if o.opt.Precision != nil {
			precision = o.opt.Precision[i]
		}
		value += 0.5 * precision * d * d
		grad[i] = -weight*grad[i] + precision*d
	}
	return value, loglik, nil
}

// MAP returns a network with the parameters that maximize Σ log p(y|f(x;θ)) − ½(θ−μ₀)ᵀΣ₀⁻¹(θ−μ₀), starting from the
// parameters of n. It does not change n. x is N×D, and y has a row of targets for each example; other numbers of
// rows panic, and so does a Precision or Mean without P numbers. The result does not depend on the number of
// processors. If ctx is done, MAP returns its error.
//
// On minibatches, Dropout drops elements. A BatchNormalization uses the moments of the minibatch, with the gradient
// through them, and updates its running statistics as PyTorch does, the variance by the unbiased estimate. L-BFGS
// maximizes the objective of the network as it predicts: without Dropout, and with fixed running statistics.
func MAP(ctx context.Context, n *network.Network, x, y *mat.Dense, loss network.Loss, o *Options) (*network.Network, *Result, error) {
	opt, err := o.withDefaults(n)
	if err != nil {
		return nil, nil, err
	}
	if x.IsEmpty() {
		return nil, nil, errors.New("train: no examples to train on")
	}
	if xr, _ := x.Dims(); xr != dense.Count(y) {
		panic("train: inputs and targets differ in rows")
	}
	if v := opt.Validation; v != nil && dense.Count(v.X) != dense.Count(v.Y) {
		panic("train: inputs and targets of the validation rows differ in rows")
	}
	if err := n.CheckInput(x); err != nil {
		return nil, nil, err
	}
	res := &Result{}
	trained := n
	if opt.Steps > 0 || opt.Epochs > 0 {
		o, err := newDescent(n, x, y, loss, opt)
		if err != nil {
			return nil, nil, err
		}
		if trained, err = o.run(ctx, res); err != nil {
			return nil, nil, err
		}
	}
	obj := &objective{trained.LogLik(loss), opt}
	theta := trained.Theta()
	if err := obj.lbfgs(ctx, theta, x, y, res); err != nil {
		return nil, nil, err
	}
	grad := make([]float64, len(theta))
	if res.Objective, res.LogLik, err = obj.eval(ctx, grad, theta, x, y, 1); err != nil {
		return nil, nil, err
	}
	res.GradientNorm = floats.Norm(grad, 2)
	trained, err = trained.WithTheta(theta)
	return trained, res, err
}

// score returns the negative log likelihood of the rows, averaged over them.
func (v *Validation) score(ctx context.Context, n *network.Network, loss network.Loss) (float64, error) {
	f, err := n.Forward(ctx, v.X)
	if err != nil {
		return 0, fmt.Errorf("train: the validation rows: %w", err)
	}
	rows, c := f.Dims()
	residual, total := make([]float64, c), 0.0
	for i := range rows {
		logp := loss.Expand(residual, nil, nil, v.Y.RawRowView(i), f.RawRowView(i))
		if math.IsNaN(logp) {
			return 0, fmt.Errorf("train: the log likelihood of validation row %d is not a number; check its target", i)
		}
		total += logp
	}
	return -total / float64(rows), nil
}

func (o *objective) report(stage string, done, total int, value float64) {
	if o.opt.Objective != nil {
		o.opt.Objective(value)
	}
	if o.opt.Progress != nil {
		o.opt.Progress(stage, done, total)
	}
}
