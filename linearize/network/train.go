package network

import (
	"context"
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
)

// A Loss is the log likelihood that Train maximizes; every gp.Likelihood is one.
// Expand returns log p(y|f) of one example and writes its gradient in f, length
// C, to residual. lambda and root, which Train does not need, are nil.
type Loss interface {
	Expand(residual, lambda, root, y, f []float64) (logp float64)
}

// TrainOptions says how Train searches for the MAP parameters: on minibatches, by
// Adam with a cosine schedule if nothing else is asked for, and then by full-batch
// L-BFGS. Nil and zero fields mean the defaults.
type TrainOptions struct {
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

// Stages of the work that TrainOptions.Progress is told of.
const (
	StageAdam  = "adam"   // epochs of Adam
	StageSGD   = "sgd"    // epochs of SGD
	StageLBFGS = "l-bfgs" // iterations of L-BFGS
)

// TrainResult reports where training stopped. Its figures are those of the network as
// it is used: without Dropout, and with running statistics.
type TrainResult struct {
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

func (o *TrainOptions) withDefaults(n *Network) (TrainOptions, error) {
	var d TrainOptions
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
		return d, fmt.Errorf("network: batch %d, %d steps, learning rate %v and tolerance %v must be positive", d.Batch, d.Steps, d.LearningRate, d.Tolerance)
	}
	if err := errors.Join(d.Optimizer.check(), d.Schedule.check()); err != nil {
		return d, err
	}
	if p := n.prog.P; d.Precision != nil && len(d.Precision) != p || d.Mean != nil && len(d.Mean) != p {
		panic("network: prior precision or mean has wrong length")
	}
	for _, v := range d.Precision {
		if !(v >= 0) || math.IsInf(v, 0) {
			return d, fmt.Errorf("network: a prior precision of %v; it must be positive, or 0 for no prior", v)
		}
	}
	return d, nil
}

// objective is the negative log posterior of a network's parameters.
type objective struct {
	sum  *gradientSum
	loss Loss
	opt  TrainOptions
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

// eval writes the gradient at theta to grad and returns the objective and
// Σ log p(y|f). In the objective and its gradient, each example counts weight
// times.
func (o *objective) eval(ctx context.Context, grad, theta []float64, x, y *mat.Dense, weight float64) (value, loglik float64, err error) {
	clear(grad)
	o.sum.setTheta(theta)
	if loglik, err = o.sum.add(ctx, grad, x, logLik(o.loss, y, o.sum.prog.C)); err != nil {
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

// Train returns a network whose parameters maximize
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
func (n *Network) Train(ctx context.Context, x, y *mat.Dense, loss Loss, o *TrainOptions) (*Network, *TrainResult, error) {
	opt, err := o.withDefaults(n)
	if err != nil {
		return nil, nil, err
	}
	if x.IsEmpty() {
		return nil, nil, errors.New("network: no examples to train on")
	}
	if xr, _ := x.Dims(); xr != dense.Count(y) {
		panic("network: inputs and targets differ in rows")
	}
	if v := opt.Validation; v != nil && dense.Count(v.X) != dense.Count(v.Y) {
		panic("network: inputs and targets of the validation rows differ in rows")
	}
	if err := n.checkInput(x); err != nil {
		return nil, nil, err
	}
	res := &TrainResult{}
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
	obj := &objective{sum: newGradientSum(trained.prog, trained.static), loss: loss, opt: opt}
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

// validationNLL returns the mean negative log likelihood of rows.
func (n *Network) validationNLL(ctx context.Context, v *Validation, loss Loss) (float64, error) {
	f, err := n.Forward(ctx, v.X)
	if err != nil {
		return 0, fmt.Errorf("network: the validation rows: %w", err)
	}
	rows, c := f.Dims()
	u := make([]float64, rows*c)
	total, err := logLik(loss, v.Y, c)(u, dense.Flat(f), 0, rows)
	if err != nil {
		return 0, fmt.Errorf("network: the validation rows: %w", err)
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
