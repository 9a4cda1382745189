package dattri

import (
	"context"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/linearize/train"
	"github.com/funcgp/funcgp/studies/descent"
	"github.com/funcgp/funcgp/studies/evaluate"
)

// What dattri's trainings have in common: MNIST's mean and deviation, SGD on minibatches
// without weight decay.
const (
	pixelMean, pixelSD = 0.1307, 0.3081
	rate               = 0.01
	batch              = 64
	classes            = 10
)

// A setting is a network and its training by SGD.
type setting struct {
	Name     string
	Hidden   []int   // units of the hidden layers, of ReLU
	Dropout  float64 // after each hidden layer
	Momentum float64
	Epochs   int
	Early    []float64 // shares of the steps after which networks trained again are still alike
}

// The networks of the benchmark.
var (
	regression = setting{Name: "regression", Epochs: 20, Early: []float64{.05, .1, .2, .4}}
	mlp        = setting{Name: "mlp", Hidden: []int{128, 64}, Dropout: .1, Momentum: .9, Epochs: 50, Early: []float64{.05, .1, .2, .4}}
)

// shares are those of the steps after which TracIn has checkpoints.
var shares = []float64{.1, .3, .6, 1}

// of returns the setting as the flags change it.
func (s *study) of(g setting) setting {
	if s.epochs > 0 {
		g.Epochs = s.epochs
	}
	return g
}

// rows are the first ones of the data, normalized.
type rows struct{ x, y, testX, testY *mat.Dense }

func (s *study) open(ctx context.Context, train, test int) (*rows, error) {
	d, err := dataset.Open(ctx, s.data, nil)
	if err != nil {
		return nil, err
	}
	r := &rows{}
	for _, part := range []struct {
		from *dataset.Rows
		n    int
		x, y **mat.Dense
	}{{d.Train, train, &r.x, &r.y}, {d.Test, test, &r.testX, &r.testY}} {
		few, err := part.from.Select(nil, part.n)
		if err != nil {
			return nil, err
		}
		*part.x, *part.y = few.Matrix(), mat.NewDense(few.Len(), 1, few.Targets)
		(*part.x).Apply(func(_, _ int, v float64) float64 { return (v - pixelMean) / pixelSD }, *part.x)
	}
	return r, nil
}

// retraining is how networks of a setting are trained on rows.
func (g *setting) retraining(d *rows, dir string) (*evaluate.Retraining, error) {
	r := &evaluate.Retraining{X: d.x, Y: d.y, Test: d.testX, Loss: glm.Categorical{}, Dir: dir,
		Network: func(seed uint64) (*network.Network, error) {
			layers := []network.Layer{network.Flatten{}}
			for _, units := range g.Hidden {
				layers = append(layers, network.Dense{Units: units}, network.ReLU, network.Dropout{Ratio: g.Dropout})
			}
			return network.Seeded(seed, network.Shape{1, 28, 28}, append(layers, network.Dense{Units: classes})...)
		}}
	net, err := r.Network(0)
	if err != nil {
		return nil, err
	}
	_, _, params := net.Dims()
	r.Options = train.Options{Precision: make([]float64, params), Optimizer: train.SGD{Momentum: g.Momentum}, Schedule: train.Constant{},
		LearningRate: rate, Batch: batch, Epochs: g.Epochs, LBFGS: -1}
	return r, nil
}

// length is the precision that is like the length of the training on n rows.
func (g *setting) length(n int) (float64, error) {
	return descent.Descent{Rate: rate, Momentum: g.Momentum, Steps: g.Epochs * (n / min(batch, n))}.Precision(n)
}

// problem is the network of a run, with checkpoints after these shares of its steps.
func problem(ctx context.Context, r *evaluate.Retraining, d *rows, run evaluate.Run, shares ...float64) (*evaluate.Problem, error) {
	nets, err := r.Checkpoints(ctx, run, shares...)
	if err != nil {
		return nil, err
	}
	q := &evaluate.Problem{Network: nets[len(nets)-1], X: d.x, Y: d.y, TestX: d.testX, TestY: d.testY, Likelihood: glm.Categorical{}}
	for _, net := range nets {
		q.Checkpoints = append(q.Checkpoints, evaluate.Checkpoint{Network: net, Rate: rate})
	}
	return q, nil
}

// half is run k of a network that is trained on a random half of n rows. The halves of a
// set are others than those of another, and the first set is that of the networks whose
// outputs are predicted.
func half(n, k, set int) evaluate.Run {
	return evaluate.Run{Rows: evaluate.Subsets(n, n/2, k+1, uint64(set))[k], Seed: uint64(1000*(set+1) + k)}
}

// halfNetworks are networks trained on halves of set 1.
func halfNetworks(ctx context.Context, r *evaluate.Retraining, n, count int) ([]*network.Network, error) {
	var nets []*network.Network
	for k := range count {
		net, err := r.Train(ctx, half(n, k, 1))
		if err != nil {
			return nil, err
		}
		nets = append(nets, net)
	}
	return nets, nil
}
