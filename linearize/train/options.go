package train

import (
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/linearize/network"
)

// Options are options of MAP. MAP trains on minibatches, by default by Adam with a cosine schedule, and then on all
// examples by L-BFGS. Nil and zero fields have their defaults.
type Options struct {
	Precision    []float64 // prior precision of each parameter, P numbers; nil means 1, a precision of 0 no prior
	Mean         []float64 // prior mean, P numbers; nil means 0
	Optimizer    Optimizer // for the minibatches; nil means Adam
	Schedule     Schedule  // of the optimizer's step size; nil means Cosine
	LearningRate float64   // first step size of the optimizer; 0 means 3e-3
	Batch        int       // examples in a minibatch; 0 means 256
	Epochs       int       // passes over the rows, less those that fill no minibatch; 0 means 30, negative none
	Steps        int       // steps on minibatches, in place of Epochs; 0 means Epochs decides
	LBFGS        int       // iterations of L-BFGS; 0 means 200, or none with Validation, negative none
	Tolerance    float64   // L-BFGS stops when the largest gradient entry is below this; 0 means 1e-6
	Seed         uint64    // of the order of the rows, and of Dropout

	// Validation, if not nil, has rows to validate on. MAP keeps the parameters after the epoch in which their
	// negative log likelihood is smallest.
	Validation *Validation
	// Evaluation trains the network in the form in which it predicts: without Dropout, and with the running
	// statistics of a BatchNormalization, which stay unchanged.
	Evaluation bool

	// Progress, if not nil, is called from one goroutine after each epoch and each iteration, with a stage, the
	// work done in it and its total.
	Progress func(stage string, done, total int)
	// Objective, if not nil, is called before Progress with −Σ log p(y|f) + ½(θ−μ₀)ᵀΣ₀⁻¹(θ−μ₀), and on minibatches
	// with its mean over the epoch.
	Objective func(value float64)
}

// A Validation has rows that decide when training on minibatches stops.
type Validation struct {
	X, Y     *mat.Dense
	Patience int // epochs without a better score after which training stops; 0 means never
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
