// Package train finds the parameters of a network that maximize the log likelihood of training examples
// under a Gaussian prior, the mode at which the other packages linearize.
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

// Options says how MAP searches for the MAP parameters: on minibatches, by
// Adam with a cosine schedule if nothing else is asked for, and then by full-batch
// L-BFGS. Nil and zero fields mean the defaults.
type Options struct {
	Precision    []float64 // prior precision of each parameter, length P; nil means 1, and 0 no prior
	Mean         []float64 // prior mean, length P; nil means 0
	Optimizer    Optimizer // of the minibatches; nil means Adam
	Schedule     Schedule  // of its step size; nil means Cosine
	LearningRate float64   // its first step size; 0 means 3e-3
	Batch        int       // examples a step; 0 means 256
	Epochs       int       // passes over the data, each without the rows that fill no batch; 0 means 30, negative none
	Steps        int       // steps on minibatches, in place of Epochs; 0 means those of Epochs
	LBFGS        int       // iterations of L-BFGS; 0 means 200, or none with Validation, negative none
	Tolerance    float64   // L-BFGS stops below this largest gradient entry; 0 means 1e-6
	Seed         uint64    // of the order of the minibatches, and of Dropout

	// Validation, if not nil, has rows that are not trained on. The parameters after the
	// epoch with their smallest negative log likelihood are kept.
	Validation *Validation
	// Evaluation trains the network as it is used: without Dropout, and with the running
	// statistics of a BatchNormalization, which stay as they are.
	Evaluation bool

	// Progress, if not nil, is called with a stage, the work done in it and its
	// total, after each epoch and each iteration; always from one goroutine.
	Progress func(stage string, done, total int)
	// Objective, if not nil, is called before Progress with
	// −Σ log p(y|f) + ½(θ−μ₀)ᵀΣ₀⁻¹(θ−μ₀), on minibatches the epoch's mean of it.
	Objective func(value float64)
}

// A Validation has the rows that say when training on minibatches stops.
type Validation struct {
	X, Y     *mat.Dense
	Patience int // epochs without a better score after which training stops; 0 means never
}

// Stages of the work that Options.Progress is told of.
const (
	StageAdam  = "adam"   // epochs of Adam
	StageSGD   = "sgd"    // epochs of SGD
	StageLBFGS = "l-bfgs" // iterations of L-BFGS
)

// A Result reports where training stopped. Its figures are those of the network as
// it is used: without Dropout, and with running statistics.
type Result struct {
	Objective    float64 // negative log posterior, up to the prior's normalization
	LogLik       float64 // Σ log p(y|f)
	GradientNorm float64 // Euclidean norm of the objective's gradient at the returned parameters
	Steps        int     // on minibatches
	Epochs       int     // of these steps, the last one perhaps not whole
	Iterations   int     // of L-BFGS

	BestEpoch     int     // from 1, after which the parameters were kept; 0 without Validation
	ValidationNLL float64 // mean negative log likelihood of the validation rows there; 0 without
	Warnings      []error
}

func (o *Options) withDefaults(n *network.Network) (Options, error) {
	var d Options
	if o != nil {
		d = *o
	}
	orInt := func(v *int, def int) {
		if *v == 0 {
			*v = def
		}
	}
	orInt(&d.Epochs, 30)
	orInt(&d.Batch, 256)
	if d.Validation != nil {
		orInt(&d.LBFGS, -1)
	}
	orInt(&d.LBFGS, 200)
	if d.LearningRate == 0 {
		d.LearningRate = 3e-3
	}
	if d.Tolerance == 0 {
		d.Tolerance = 1e-6
	}
	if d.Optimizer == nil {
		d.Optimizer = Adam{}
	}
	if d.Schedule == nil {
		d.Schedule = Cosine{}
	}
	if d.Batch < 0 || d.Steps < 0 || !(d.LearningRate > 0) || !(d.Tolerance > 0) || math.IsInf(d.LearningRate, 0) {
		return d, fmt.Errorf("train: batch %d, %d steps, learning rate %v and tolerance %v must be positive", d.Batch, d.Steps, d.LearningRate, d.Tolerance)
	}
	if err := errors.Join(d.Optimizer.check(), d.Schedule.check()); err != nil {
		return d, err
	}
	if _, _, p := n.Dims(); d.Precision != nil && len(d.Precision) != p || d.Mean != nil && len(d.Mean) != p {
		panic("train: prior precision or mean has wrong length")
	}
	for _, v := range d.Precision {
		if !(v >= 0) || math.IsInf(v, 0) {
			return d, fmt.Errorf("train: a prior precision of %v; it must be positive, or 0 for no prior", v)
		}
	}
	return d, nil
}

// objective is the negative log posterior of a network's parameters.
type objective struct {
	loglik *network.LogLik
	opt    Options
}

// eval writes the gradient at theta to grad and returns the objective and
// Σ log p(y|f). In the objective and its gradient, each example counts weight
// times.
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

// MAP returns a network whose parameters maximize
// Σ log p(y|f(x;θ)) − ½(θ−μ₀)ᵀΣ₀⁻¹(θ−μ₀), found from those of n; n stays as it
// is. x is N×D and y has a row of targets for each example; other numbers of rows
// panic, and so do a Precision or Mean of another length than P. The result is
// the same for any number of workers. If ctx is done, its error is returned.
//
// On minibatches, Dropout nodes drop elements and a BatchNormalization uses the
// moments of the minibatch, with the gradient through them, and updates its running
// statistics as PyTorch does, the variance by the unbiased estimate. L-BFGS maximizes
// the objective of the network as it is used, without Dropout and with the running
// statistics held fixed.
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

// score returns the mean negative log likelihood of the rows.
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
