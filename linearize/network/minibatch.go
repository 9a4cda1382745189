package network

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network/internal/compile"
	"github.com/funcgp/funcgp/linearize/network/internal/graph"
)

// trainingProgram returns the program that is trained on minibatches: with the
// Dropout and BatchNormalization nodes as they act in training.
func (n *Network) trainingProgram() (*graph.Program, error) {
	if !slices.Contains(n.prog.Operators, "Dropout") && !slices.Contains(n.prog.Operators, "BatchNormalization") {
		return n.prog, nil
	}
	if len(n.groups) > 0 {
		return nil, fmt.Errorf("network: a network with Dropout or BatchNormalization is trained before its outputs are grouped")
	}
	r, err := compile.Compile(n.model, compile.Options{Freeze: n.constants(), Learn: n.paramNames(), Head: n.read.Head, Columns: n.read.columns, Width: n.read.width, Training: true})
	if err != nil {
		return nil, err
	}
	if !slices.EqualFunc(r.Program.Params, n.prog.Params, func(a, b linearize.Param) bool {
		return a.Name == b.Name && a.Offset == b.Offset && slices.Equal(a.Shape, b.Shape)
	}) {
		return nil, fmt.Errorf("network: its parameters in training are others than in use; set TrainOptions.Evaluation")
	}
	return r.Program, nil
}

// MinibatchBytes returns about the bytes that training takes for the activations of a
// minibatch and their gradients. Chunks of it run one after another, unless a
// BatchNormalization needs all of them.
func (n *Network) MinibatchBytes(batch int) int64 {
	size, chunk := 0, n.prog.Chunk*par.Workers(0)
	for _, s := range n.prog.Slots {
		if !s.Static {
			size += s.Size
		}
	}
	if slices.Contains(n.prog.Operators, "BatchNormalization") {
		chunk = batch
	}
	return memory.Mul(2*8*int64(size), int64(min(batch, chunk)))
}

// A descent trains a network on minibatches.
type descent struct {
	*objective
	net     *Network
	x, y    *mat.Dense // of the training rows
	theta   []float64
	grad    []float64
	bx, by  *mat.Dense   // of the minibatch
	running []statistics // of each batch normalization
	dropper func(step int) graph.Dropper
	order   func() []int // of the rows in an epoch
}

// statistics are the running mean and variance of the channels of a batch normalization.
type statistics struct{ mean, variance []float64 }

// newDescent returns a descent from the network's parameters.
func newDescent(n *Network, x, y *mat.Dense, loss Loss, opt TrainOptions) (*descent, error) {
	prog := n.prog
	if !opt.Evaluation {
		var err error
		if prog, err = n.trainingProgram(); err != nil {
			return nil, err
		}
	}
	rows, d := x.Dims()
	_, targets := y.Dims()
	batch := min(opt.Batch, rows)
	o := &descent{objective: &objective{sum: newGradientSum(prog, nil), loss: loss, opt: opt}, net: n, x: x, y: y,
		theta: n.Theta(), grad: make([]float64, prog.P), bx: mat.NewDense(batch, d, nil), by: mat.NewDense(batch, targets, nil),
		dropper: func(step int) graph.Dropper { return graph.SeededDropper(opt.Seed, step) }}
	rng := rand.New(rand.NewPCG(opt.Seed, 0x5eed))
	o.order = func() []int { return rng.Perm(rows) }
	for _, norm := range prog.Norms {
		o.running = append(o.running, statistics{slices.Clone(norm.Start[0]), slices.Clone(norm.Start[1])})
	}
	return o, nil
}

// run goes through the minibatches and returns the trained network.
func (o *descent) run(ctx context.Context, res *TrainResult) (*Network, error) {
	rows, _ := o.x.Dims()
	batch, _ := o.bx.Dims()
	perEpoch := rows / batch
	steps := o.opt.Steps
	if steps == 0 {
		steps = o.opt.Epochs * perEpoch
	}
	epochs := (steps + perEpoch - 1) / perEpoch
	move, schedule := o.opt.Optimizer.start(len(o.theta), rows), o.opt.Schedule.start(o.opt.LearningRate, steps)
	var best *Network
	bestNLL := math.Inf(1)
	for res.Steps < steps {
		order := o.order()
		total, count := 0.0, min(perEpoch, steps-res.Steps)
		for k := range count {
			o.gather(order[k*batch : (k+1)*batch])
			value, err := o.gradient(ctx, res.Steps)
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
			net, err := o.network()
			if err != nil {
				return nil, err
			}
			if loss, err = net.validationNLL(ctx, v, o.loss); err != nil {
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
	return o.network()
}

// gather copies rows to the minibatch.
func (o *descent) gather(order []int) {
	for i, r := range order {
		copy(o.bx.RawRowView(i), o.x.RawRowView(r))
		copy(o.by.RawRowView(i), o.y.RawRowView(r))
	}
}

// gradient writes the gradient of the objective on the minibatch, scaled to all rows,
// and returns the objective. It updates the running statistics.
func (o *descent) gradient(ctx context.Context, step int) (float64, error) {
	rows, _ := o.x.Dims()
	batch, _ := o.bx.Dims()
	o.sum.drop = o.dropper(step)
	value, _, err := o.eval(ctx, o.grad, o.theta, o.bx, o.by, float64(rows)/float64(batch))
	if err != nil {
		return 0, err
	}
	for i, r := range o.running {
		norm, m := &o.sum.prog.Norms[i], o.sum.norms.Moments[i]
		if m.Count < 2 {
			return 0, fmt.Errorf("network: a batch normalization has one number a channel in a minibatch of %d; raise the batch", batch)
		}
		unbiased := m.Count / (m.Count - 1)
		for ch := range r.mean {
			r.mean[ch] = norm.Momentum*r.mean[ch] + (1-norm.Momentum)*m.Mean[ch]
			r.variance[ch] = norm.Momentum*r.variance[ch] + (1-norm.Momentum)*unbiased*m.Variance[ch]
		}
	}
	return value, nil
}

// network returns the network as it is now, with its running statistics.
func (o *descent) network() (*Network, error) {
	net := o.net
	if len(o.running) > 0 {
		numbers := map[string][]float64{}
		for i, r := range o.running {
			norm := &o.sum.prog.Norms[i]
			numbers[norm.Mean], numbers[norm.Variance] = slices.Clone(r.mean), slices.Clone(r.variance)
		}
		var err error
		if net, err = net.withConstants(numbers); err != nil {
			return nil, err
		}
	}
	return net.WithTheta(o.theta)
}

// withConstants returns the network with other numbers in stored tensors that are not
// parameters.
func (n *Network) withConstants(numbers map[string][]float64) (*Network, error) {
	model, g := n.withParameters()
	for i, t := range g.Initializers {
		if v, ok := numbers[t.Name]; ok {
			c := *t
			c.Floats = v
			g.Initializers[i] = &c
		}
	}
	m, err := compiled(model, nil, ReadOptions{Freeze: n.constants(), Learn: n.paramNames(), Head: n.read.Head, columns: n.read.columns, width: n.read.width}, nodeTensors{})
	if err != nil {
		return nil, err
	}
	m.prog.Tensors, m.read, m.inNodes = n.prog.Tensors, n.read, n.inNodes
	m.warnings, m.metadata, m.double, m.files = n.warnings, maps.Clone(n.metadata), n.double, n.files
	return m, nil
}

// WithStateOf returns the network with the parameters, and the running statistics of
// its batch normalizations, that another one has under the same names. It is an error if
// the other one lacks one of them or has it in another shape.
func (n *Network) WithStateOf(other *Network) (*Network, error) {
	_, g := other.withParameters()
	tensors := map[string]*onnx.Tensor{}
	for _, t := range g.Initializers {
		tensors[t.Name] = t
	}
	find := func(name string, length int) ([]float64, error) {
		if t := tensors[name]; t != nil && len(t.Floats) == length {
			return t.Floats, nil
		}
		return nil, fmt.Errorf("network: the other network has no tensor %s of %d numbers; both need the same layers", quote(name), length)
	}
	prog, err := n.trainingProgram()
	if err != nil {
		return nil, err
	}
	numbers := map[string][]float64{}
	for _, norm := range prog.Norms {
		for i, name := range []string{norm.Mean, norm.Variance} {
			if numbers[name], err = find(name, len(norm.Start[i])); err != nil {
				return nil, err
			}
		}
	}
	theta := n.Theta()
	for _, p := range n.prog.Params {
		v, err := find(p.Name, p.Len())
		if err != nil {
			return nil, err
		}
		copy(theta[p.Offset:], v)
	}
	m := n
	if len(numbers) > 0 {
		if m, err = n.withConstants(numbers); err != nil {
			return nil, err
		}
	}
	return m.WithTheta(theta)
}
