package network

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/optimize"

	"github.com/funcgp/funcgp/internal/dense"
)

// A Loss is the log likelihood that Train maximizes; every gp.Likelihood is one.
// Expand returns log p(y|f) of one example and writes its gradient in f, length
// C, to residual. lambda and root, which Train does not need, are nil.
type Loss interface {
	Expand(residual, lambda, root, y, f []float64) (logp float64)
}

// TrainOptions says how Train searches for the MAP parameters: minibatch Adam
// with a cosine schedule, then full-batch L-BFGS. Nil and zero fields mean the
// defaults.
type TrainOptions struct {
	Precision    []float64 // prior precision of each parameter, length P; nil means 1
	Mean         []float64 // prior mean, length P; nil means 0
	Epochs       int       // passes of Adam over the data; 0 means 30, negative none
	Batch        int       // examples a step; 0 means 256
	LearningRate float64   // first step size of Adam, falling to 1 % of it; 0 means 3e-3
	LBFGS        int       // iterations of L-BFGS; 0 means 200, negative none
	Tolerance    float64   // L-BFGS stops below this largest gradient entry; 0 means 1e-6
	Seed         uint64    // order of the minibatches

	// Progress, if not nil, is called with a stage, the work done in it and its
	// total, after each epoch and each iteration; always from one goroutine.
	Progress func(stage string, done, total int)
	// Objective, if not nil, is called before Progress with
	// −Σ log p(y|f) + ½(θ−μ₀)ᵀΣ₀⁻¹(θ−μ₀), for Adam that of the epoch's minibatches.
	Objective func(value float64)
}

// Stages of the work that TrainOptions.Progress is told of.
const (
	StageAdam  = "adam"   // epochs of Adam
	StageLBFGS = "l-bfgs" // iterations of L-BFGS
)

// TrainResult reports where training stopped.
type TrainResult struct {
	Objective    float64 // negative log posterior, up to the prior's normalization
	LogLik       float64 // Σ log p(y|f)
	GradientNorm float64 // Euclidean norm of the objective's gradient at the returned parameters
	Iterations   int     // of L-BFGS
	Warnings     []error
}

func (o *TrainOptions) withDefaults(p int) (TrainOptions, error) {
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
	orInt(&d.LBFGS, 200)
	if d.LearningRate == 0 {
		d.LearningRate = 3e-3
	}
	if d.Tolerance == 0 {
		d.Tolerance = 1e-6
	}
	if d.Batch < 0 || !(d.LearningRate > 0) || !(d.Tolerance > 0) || math.IsInf(d.LearningRate, 0) {
		return d, fmt.Errorf("network: batch %d, learning rate %v and tolerance %v must be positive", d.Batch, d.LearningRate, d.Tolerance)
	}
	if d.Precision != nil && len(d.Precision) != p || d.Mean != nil && len(d.Mean) != p {
		panic("network: prior precision or mean has wrong length")
	}
	for _, v := range d.Precision {
		if !(v > 0) || math.IsInf(v, 0) {
			return d, fmt.Errorf("network: a prior precision of %v; it must be positive", v)
		}
	}
	return d, nil
}

// objective is the negative log posterior of a network's parameters.
type objective struct {
	net  *Network
	sum  *gradientSum
	loss Loss
	opt  TrainOptions
}

// eval writes the gradient at theta to grad and returns the objective and
// Σ log p(y|f). In the objective and its gradient, each example counts weight
// times.
func (o *objective) eval(ctx context.Context, grad, theta []float64, x, y *mat.Dense, weight float64) (value, loglik float64, err error) {
	clear(grad)
	o.sum.setTheta(theta)
	c := o.net.prog.C
	loglik, err = o.sum.add(ctx, grad, x, func(u, f []float64, lo, hi int) (float64, error) {
		total := 0.0
		for i := lo; i < hi; i++ {
			at := (i - lo) * c
			logp := o.loss.Expand(u[at:at+c], nil, nil, y.RawRowView(i), f[at:at+c])
			if math.IsNaN(logp) {
				return 0, fmt.Errorf("network: the log likelihood of row %d is not a number; check its target", i)
			}
			total += logp
		}
		return total, nil
	})
	if err != nil {
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
func (n *Network) Train(ctx context.Context, x, y *mat.Dense, loss Loss, o *TrainOptions) (*Network, *TrainResult, error) {
	opt, err := o.withDefaults(n.prog.P)
	if err != nil {
		return nil, nil, err
	}
	if x.IsEmpty() {
		return nil, nil, errors.New("network: no examples to train on")
	}
	if xr, _ := x.Dims(); xr != dense.Count(y) {
		panic("network: inputs and targets differ in rows")
	}
	if err := n.checkInput(x); err != nil {
		return nil, nil, err
	}
	obj := &objective{net: n, sum: newGradientSum(n), loss: loss, opt: opt}
	theta := n.Theta()
	if err := obj.adam(ctx, theta, x, y); err != nil {
		return nil, nil, err
	}
	res := &TrainResult{}
	if err := obj.lbfgs(ctx, theta, x, y, res); err != nil {
		return nil, nil, err
	}
	grad := make([]float64, len(theta))
	if res.Objective, res.LogLik, err = obj.eval(ctx, grad, theta, x, y, 1); err != nil {
		return nil, nil, err
	}
	res.GradientNorm = floats.Norm(grad, 2)
	trained, err := n.WithTheta(theta)
	return trained, res, err
}

// adam minimizes the objective by Adam (Kingma and Ba, 2015) with the usual
// constants.
func (o *objective) adam(ctx context.Context, theta []float64, x, y *mat.Dense) error {
	const beta1, beta2, eps = 0.9, 0.999, 1e-8
	rng := rand.New(rand.NewPCG(o.opt.Seed, 0x5eed))
	rows, d := x.Dims()
	_, targets := y.Dims()
	batch := min(o.opt.Batch, rows)
	m, v, grad := make([]float64, len(theta)), make([]float64, len(theta)), make([]float64, len(theta))
	bx, by := mat.NewDense(batch, d, nil), mat.NewDense(batch, targets, nil)
	steps, step := max(o.opt.Epochs, 0)*(rows/batch), 0
	for epoch := range max(o.opt.Epochs, 0) {
		order := rng.Perm(rows)
		total := 0.0
		for first := 0; first+batch <= rows; first += batch {
			for i, r := range order[first : first+batch] {
				copy(bx.RawRowView(i), x.RawRowView(r))
				copy(by.RawRowView(i), y.RawRowView(r))
			}
			value, _, err := o.eval(ctx, grad, theta, bx, by, float64(rows)/float64(batch))
			if err != nil {
				return err
			}
			total += value
			step++
			rate := o.opt.LearningRate * (0.01 + 0.99*0.5*(1+math.Cos(math.Pi*float64(step-1)/float64(steps))))
			c1, c2 := 1-math.Pow(beta1, float64(step)), 1-math.Pow(beta2, float64(step))
			for i, g := range grad {
				m[i] = beta1*m[i] + (1-beta1)*g
				v[i] = beta2*v[i] + (1-beta2)*g*g
				theta[i] -= rate * (m[i] / c1) / (math.Sqrt(v[i]/c2) + eps)
			}
		}
		o.report(StageAdam, epoch+1, o.opt.Epochs, total/float64(rows/batch))
	}
	return nil
}

func (o *objective) report(stage string, done, total int, value float64) {
	if o.opt.Objective != nil {
		o.opt.Objective(value)
	}
	if o.opt.Progress != nil {
		o.opt.Progress(stage, done, total)
	}
}

// lbfgs improves theta in place until the gradient is small, the iterations
// are used up or no step lowers the objective.
func (o *objective) lbfgs(ctx context.Context, theta []float64, x, y *mat.Dense, res *TrainResult) error {
	if o.opt.LBFGS < 0 {
		return nil
	}
	var failed error
	grad, at, value := make([]float64, len(theta)), make([]float64, len(theta)), math.NaN()
	best, bestAt := math.Inf(1), append([]float64(nil), theta...)
	eval := func(p []float64) {
		if floats.Equal(p, at) && !math.IsNaN(value) {
			return
		}
		copy(at, p)
		if failed != nil {
			return
		}
		v, _, err := o.eval(ctx, grad, p, x, y, 1)
		if err != nil {
			// A trial step may leave the range of float64; that step is refused.
			v = math.Inf(1)
			if ctx.Err() != nil {
				failed = ctx.Err()
			}
		}
		if value = v; v < best {
			best = v
			copy(bestAt, p)
		}
	}
	problem := optimize.Problem{
		Func:   func(p []float64) float64 { eval(p); return value },
		Grad:   func(g, p []float64) { eval(p); copy(g, grad) },
		Status: func() (optimize.Status, error) { return optimize.NotTerminated, failed },
	}
	settings := &optimize.Settings{MajorIterations: o.opt.LBFGS, GradientThreshold: o.opt.Tolerance, Converger: &optimize.FunctionConverge{Absolute: 1e-13, Relative: 1e-13, Iterations: 20},
		Recorder: recorder(func(it int, f float64) { o.report(StageLBFGS, min(it, o.opt.LBFGS), o.opt.LBFGS, f) })}
	result, err := optimize.Minimize(problem, theta, settings, &optimize.LBFGS{Store: 50})
	if failed != nil {
		return failed
	}
	if err != nil && result == nil {
		return fmt.Errorf("network: L-BFGS: %w", err)
	}
	if err != nil {
		res.Warnings = append(res.Warnings, fmt.Errorf("L-BFGS stopped early: %w", err))
	}
	res.Iterations = result.MajorIterations
	copy(theta, bestAt)
	return nil
}

// recorder reports each major iteration.
type recorder func(iteration int, f float64)

func (recorder) Init() error { return nil }

func (r recorder) Record(l *optimize.Location, op optimize.Operation, s *optimize.Stats) error {
	if op == optimize.MajorIteration {
		r(s.MajorIterations, l.F)
	}
	return nil
}
