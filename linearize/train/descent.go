package train

import (
	"context"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/linearize/network"
)

// A descent trains a network on minibatches.
type descent struct {
	*objective
	loss   network.Loss
	x, y   *mat.Dense // training rows
	theta  []float64
	grad   []float64
	bx, by *mat.Dense   // minibatch
	order  func() []int // returns the order of the rows in the next epoch
}

// newDescent returns a descent that starts at the network's parameters.
func newDescent(n *network.Network, x, y *mat.Dense, loss network.Loss, opt Options) (*descent, error) {
	loglik := n.LogLik(loss)
	if !opt.Evaluation {
		var err error
		if loglik, err = n.TrainingLogLik(loss, opt.Seed); err != nil {
			return nil, err
		}
	}
	rows, d := x.Dims()
	_, targets := y.Dims()
	batch, theta := min(opt.Batch, rows), n.Theta()
	rng := rand.New(rand.NewPCG(opt.Seed, 0x5eed))
	return &descent{objective: &objective{loglik, opt}, loss: loss, x: x, y: y, theta: theta, grad: make([]float64, len(theta)),
		bx: mat.NewDense(batch, d, nil), by: mat.NewDense(batch, targets, nil), order: func() []int { return rng.Perm(rows) }}, nil
}

// run makes the steps on minibatches and returns the trained network.
func (o *descent) run(ctx context.Context, res *Result) (*network.Network, error) {
	rows, _ := o.x.Dims()
	batch, _ := o.bx.Dims()
	perEpoch := rows / batch
	steps := o.opt.Steps
	if steps == 0 {
		steps = o.opt.Epochs * perEpoch
	}
	epochs := (steps + perEpoch - 1) / perEpoch
	move, schedule := o.opt.Optimizer.start(len(o.theta), rows), o.opt.Schedule.start(o.opt.LearningRate, steps)
	var best *network.Network
	bestNLL := math.Inf(1)
	for res.Steps < steps {
		order := o.order()
		total, count := 0.0, min(perEpoch, steps-res.Steps)
		for k := range count {
			for i, r := range order[k*batch : (k+1)*batch] {
				copy(o.bx.RawRowView(i), o.x.RawRowView(r))
				copy(o.by.RawRowView(i), o.y.RawRowView(r))
			}
			value, _, err := o.eval(ctx, o.grad, o.theta, o.bx, o.by, float64(rows)/float64(batch))
			if err != nil {
				return nil, err
			}
			total += value
			move(o.theta, o.grad, schedule.rate(res.Steps))
			res.Steps++
		}
		res.Epochs++
		mean := total / float64(count)
		loss := mean
		if v := o.opt.Validation; v != nil {
			net, err := o.loglik.Network(o.theta)
			if err != nil {
				return nil, err
			}
			if loss, err = v.score(ctx, net, o.loss); err != nil {
				return nil, err
			}
			if loss < bestNLL {
				best, bestNLL = net, loss
				res.BestEpoch, res.ValidationNLL = res.Epochs, loss
			}
		}
		schedule.epochEnded(loss)
		o.report(o.opt.Optimizer.stage(), res.Epochs, epochs, mean)
		if best != nil && o.opt.Validation.Patience > 0 && res.Epochs-res.BestEpoch >= o.opt.Validation.Patience {
			break
		}
	}
	if best != nil {
		return best, nil
	}
	return o.loglik.Network(o.theta)
}
