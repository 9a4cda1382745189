package train

import (
	"bytes"
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize/network"
)

func normals(rng *rand.Rand, rows, cols int) *mat.Dense {
	m := mat.NewDense(rows, cols, nil)
	for i := range rows {
		for j := range cols {
			m.Set(i, j, rng.NormFloat64())
		}
	}
	return m
}

// inputs is the number D of a network.
func inputs(n *network.Network) int {
	d, _, _ := n.Dims()
	return d
}

// noisy is a network with everything that acts in training only.
func noisy(t *testing.T, seed uint64) *network.Network {
	t.Helper()
	n, err := network.Seeded(seed, network.Shape{2, 5, 5}, network.Conv2D{Filters: 3, Kernel: 2, NoBias: true}, network.BatchNorm{}, network.ReLU, network.Dropout{Ratio: 0.2}, network.MaxPool2D{Size: 2},
		network.Residual{Layers: []network.Layer{network.Conv2D{Filters: 3, Kernel: 3, Padding: 1}, network.BatchNorm{Momentum: 0.3}, network.Tanh}},
		network.Flatten{}, network.Dense{Units: 6}, network.BatchNorm{}, network.Tanh, network.Dropout{Ratio: 0.5}, network.Dense{Units: 2})
	require.NoError(t, err)
	return n
}

// Training is bit-identical for any number of processors.
func TestMinibatchProcessors(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 5))
	for name, layers := range map[string][]network.Layer{
		"noisy":   nil,
		"dropout": {network.Dense{Units: 30}, network.Tanh, network.Dropout{Ratio: 0.3}, network.Dense{Units: 2}},
	} {
		n := noisy(t, 8)
		if layers != nil {
			var err error
			n, err = network.Sequential(network.Shape{4}, layers...)
			require.NoError(t, err)
		}
		x, y := normals(rng, 900, inputs(n)), normals(rng, 900, 2)
		run := func(procs int) []byte {
			testref.Procs(t, procs)
			trained, _, err := MAP(t.Context(), n, x, y, half{}, &Options{Batch: 400, Steps: 5, LBFGS: 3, Optimizer: SGD{Momentum: 0.9}, LearningRate: 1e-3})
			require.NoError(t, err)
			var b bytes.Buffer
			require.NoError(t, trained.WriteONNX(&b))
			return b.Bytes()
		}
		want := run(1)
		for _, procs := range []int{2, 5} {
			require.True(t, bytes.Equal(want, run(procs)), "%s with %d processors", name, procs)
		}
	}
}

// The trained network is what the file has: running statistics included, Dropout
// without effect, and its objective is the one that is reported.
func TestTrainedFile(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 7))
	n := noisy(t, 1)
	x, y := normals(rng, 60, inputs(n)), normals(rng, 60, 2)
	trained, res, err := MAP(t.Context(), n, x, y, half{}, &Options{Batch: 20, Epochs: 4, LBFGS: 20})
	require.NoError(t, err)
	require.Equal(t, 12, res.Steps)
	var file bytes.Buffer
	require.NoError(t, trained.WriteONNX(&file))
	read := testref.Must(network.ReadONNX(&file, nil))(t)
	require.Empty(t, read.Warnings())
	want := testref.Must(trained.Forward(t.Context(), x))(t)
	got := testref.Must(read.Forward(t.Context(), x))(t)
	require.True(t, mat.Equal(want, got))
	objective := 0.0
	for i := range 60 {
		for c := range 2 {
			objective += 0.5 * math.Pow(y.At(i, c)-got.At(i, c), 2)
		}
	}
	require.InEpsilon(t, -objective, res.LogLik, 1e-12)
	for _, v := range read.Theta() {
		objective += 0.5 * v * v
	}
	require.InEpsilon(t, objective, res.Objective, 1e-12)
	b := testref.Must(read.Linearize(t.Context(), x))(t)
	require.Equal(t, len(n.Theta()), b.P)

	// Another network of the same layers takes it over; one of others does not.
	again := testref.Must(noisy(t, 2).WithStateOf(read))(t)
	got = testref.Must(again.Forward(t.Context(), x))(t)
	require.True(t, mat.Equal(want, got))
	other := testref.Must(network.Sequential(network.Shape{2, 5, 5}, network.Flatten{}, network.Dense{Units: 2}))(t)
	require.ErrorContains(t, testref.Err(other.WithStateOf(read)), `tensor "Dense1.weight" of 100 numbers`)

	// In evaluation mode the running statistics stay.
	fixed, _, err := MAP(t.Context(), trained, x, y, half{}, &Options{Batch: 20, Epochs: 1, LBFGS: -1, Evaluation: true})
	require.NoError(t, err)
	before, after := running(t, trained), running(t, fixed)
	require.Equal(t, before, after)
	moved, _, err := MAP(t.Context(), trained, x, y, half{}, &Options{Batch: 20, Epochs: 1, LBFGS: -1})
	require.NoError(t, err)
	require.NotEqual(t, before, running(t, moved))
}

// Training stops after as many epochs without a better score as it was told, and
// returns the best network; a prior precision of 0 is none.
func TestEarlyStopping(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 9))
	n, err := network.Sequential(network.Shape{3}, network.Dense{Units: 20}, network.Tanh, network.Dense{Units: 1})
	require.NoError(t, err)
	x, v := normals(rng, 20, 3), normals(rng, 30, 3)
	target := func(x *mat.Dense) *mat.Dense {
		rows, _ := x.Dims()
		y := mat.NewDense(rows, 1, nil)
		for i := range rows {
			y.Set(i, 0, math.Sin(x.At(i, 0))+0.5*rng.NormFloat64())
		}
		return y
	}
	y, vy := target(x), target(v)
	var scores []float64
	opt := &Options{Precision: make([]float64, len(n.Theta())), Batch: 5, Epochs: 400, LearningRate: 0.01, Schedule: Constant{}, Validation: &Validation{X: v, Y: vy, Patience: 7}}
	trained, res, err := MAP(t.Context(), n, x, y, half{}, opt)
	require.NoError(t, err)
	require.Zero(t, res.Iterations, "no L-BFGS")
	require.Equal(t, res.BestEpoch+7, res.Epochs)
	require.Less(t, res.Epochs, 400)
	for epochs := range res.Epochs {
		o := *opt
		o.Epochs, o.Validation, o.LBFGS = epochs+1, nil, -1
		net, _, err := MAP(t.Context(), n, x, y, half{}, &o)
		require.NoError(t, err)
		score := testref.Must(opt.Validation.score(t.Context(), net, half{}))(t)
		if scores = append(scores, score); epochs+1 == res.BestEpoch {
			require.Equal(t, net.Theta(), trained.Theta())
			require.Equal(t, score, res.ValidationNLL)
		}
	}
	for _, s := range scores {
		require.GreaterOrEqual(t, s, res.ValidationNLL)
	}
}

// What cannot be trained is one error.
func TestTrainRefuses(t *testing.T) {
	n := noisy(t, 1)
	x, y := mat.NewDense(3, inputs(n), nil), mat.NewDense(3, 2, nil)
	for want, o := range map[string]*Options{
		"one number a channel": {Batch: 1},
		"decays":               {Optimizer: Adam{Beta1: 1.5}},
		"weight decay":         {Optimizer: Adam{Decay: -1}},
		"momentum":             {Optimizer: SGD{Momentum: 1}},
		"every -1 epochs":      {Schedule: StepDecay{Epochs: -1}},
		"plateaus":             {Schedule: Plateau{Factor: 1}},
		"-1 steps":             {Steps: -1},
		"it must be positive":  {Precision: append(make([]float64, len(n.Theta())-1), -1)},
	} {
		_, _, err := MAP(t.Context(), n, x, y, half{}, o)
		require.ErrorContains(t, err, want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, _, err := MAP(ctx, n, normals(rand.New(rand.NewPCG(1, 1)), 40, inputs(n)), mat.NewDense(40, 2, nil), half{}, &Options{Batch: 10, Progress: func(string, int, int) { cancel() }})
	require.ErrorIs(t, err, context.Canceled)
}
