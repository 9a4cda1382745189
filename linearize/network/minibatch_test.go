package network

import (
	"bytes"
	"context"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/linearize/network/internal/graph"
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

// noisy is a network with everything that acts in training only.
func noisy(t *testing.T, seed uint64) *Network {
	t.Helper()
	n, err := Seeded(seed, Shape{2, 5, 5}, Conv2D{Filters: 3, Kernel: 2, NoBias: true}, BatchNorm{}, ReLU, Dropout{Ratio: 0.2}, MaxPool2D{Size: 2},
		Residual{Layers: []Layer{Conv2D{Filters: 3, Kernel: 3, Padding: 1}, BatchNorm{Momentum: 0.3}, Tanh}},
		Flatten{}, Dense{Units: 6}, BatchNorm{}, Tanh, Dropout{Ratio: 0.5}, Dense{Units: 2})
	require.NoError(t, err)
	return n
}

// chunked returns a descent of the noisy network with chunks of another size.
func chunked(t *testing.T, chunk, rows int, opt TrainOptions) *descent {
	t.Helper()
	n := noisy(t, 3)
	rng := rand.New(rand.NewPCG(1, 2))
	opt, err := opt.withDefaults(n)
	require.NoError(t, err)
	d, err := newDescent(n, normals(rng, rows, n.prog.D), normals(rng, rows, 2), half{}, opt)
	require.NoError(t, err)
	if chunk > 0 {
		d.sum.prog.Chunk = chunk
	}
	return d
}

// The gradient of the objective on a minibatch, through the batch's moments and at the
// elements that are not dropped, is that of finite differences, and does not depend on
// how the minibatch is cut into chunks.
func TestGradientOnMinibatch(t *testing.T) {
	const rows = 23
	whole := chunked(t, rows, rows, TrainOptions{Batch: rows})
	all := make([]int, rows)
	for i := range all {
		all[i] = i
	}
	value := func(d *descent) float64 {
		d.gather(all)
		v, err := d.gradient(t.Context(), 5)
		require.NoError(t, err)
		return v
	}
	want := value(whole)
	for _, chunk := range []int{1, 2, 7} { // at most 16 chunks, so that 1 becomes 2
		d := chunked(t, chunk, rows, TrainOptions{Batch: rows})
		require.InEpsilon(t, want, value(d), 1e-13)
		require.InDeltaSlice(t, whole.grad, d.grad, 1e-11)
		for i, r := range d.running {
			require.InDeltaSlice(t, whole.running[i].mean, r.mean, 1e-14)
			require.InDeltaSlice(t, whole.running[i].variance, r.variance, 1e-14)
		}
	}
	grad := append([]float64(nil), whole.grad...)
	const h = 1e-5
	for i := range grad {
		at := whole.theta[i]
		whole.theta[i] = at + h
		up := value(whole)
		whole.theta[i] = at - h
		down := value(whole)
		whole.theta[i] = at
		require.InDelta(t, (up-down)/(2*h), grad[i], 2e-5*(1+math.Abs(grad[i])), "parameter %d", i)
	}
}

// Training is bit-identical for any number of workers.
func TestMinibatchWorkers(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 5))
	for name, layers := range map[string][]Layer{
		"noisy":   nil,
		"dropout": {Dense{Units: 30}, Tanh, Dropout{Ratio: 0.3}, Dense{Units: 2}},
	} {
		n := noisy(t, 8)
		if layers != nil {
			var err error
			n, err = Sequential(Shape{4}, layers...)
			require.NoError(t, err)
		}
		x, y := normals(rng, 900, n.prog.D), normals(rng, 900, 2)
		run := func(procs int) []byte {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
			trained, _, err := n.Train(t.Context(), x, y, half{}, &TrainOptions{Batch: 400, Steps: 5, LBFGS: 3, Optimizer: SGD{Momentum: 0.9}, LearningRate: 1e-3})
			require.NoError(t, err)
			var b bytes.Buffer
			require.NoError(t, trained.WriteONNX(&b))
			return b.Bytes()
		}
		want := run(1)
		for _, procs := range []int{2, 5} {
			require.True(t, bytes.Equal(want, run(procs)), "%s with %d workers", name, procs)
		}
	}
}

// The share of dropped elements is the ratio, they are others at each step, layer and
// example, and the same again for the same seed.
func TestDropper(t *testing.T) {
	const n = 20000
	draw := func(seed uint64, step, layer, example int, ratio float64) []float64 {
		dst := make([]float64, n)
		graph.SeededDropper(seed, step)(dst, &graph.Dropout{Ratio: ratio, Layer: layer}, example)
		return dst
	}
	for _, ratio := range []float64{0.1, 0.5, 0.9} {
		zeros := 0.0
		for _, v := range draw(1, 2, 3, 4, ratio) {
			if v == 0 {
				zeros++
				continue
			}
			require.InEpsilon(t, 1/(1-ratio), v, 1e-15)
		}
		require.InDelta(t, ratio, zeros/n, 5*math.Sqrt(ratio*(1-ratio)/n))
	}
	base := draw(1, 2, 3, 4, 0.5)
	require.Equal(t, base, draw(1, 2, 3, 4, 0.5))
	for _, other := range [][]float64{draw(2, 2, 3, 4, 0.5), draw(1, 3, 3, 4, 0.5), draw(1, 2, 4, 4, 0.5), draw(1, 2, 3, 5, 0.5)} {
		agree := 0.0
		for i := range base {
			if base[i] == other[i] {
				agree++
			}
		}
		require.InDelta(t, 0.5, agree/n, 5*0.5/math.Sqrt(n), "independent")
	}
}

// The trained network is what the file has: running statistics included, Dropout
// without effect, and its objective is the one that is reported.
func TestTrainedFile(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 7))
	n := noisy(t, 1)
	x, y := normals(rng, 60, n.prog.D), normals(rng, 60, 2)
	trained, res, err := n.Train(t.Context(), x, y, half{}, &TrainOptions{Batch: 20, Epochs: 4, LBFGS: 20})
	require.NoError(t, err)
	require.Equal(t, 12, res.Steps)
	var file bytes.Buffer
	require.NoError(t, trained.WriteONNX(&file))
	read, err := ReadONNX(&file, nil)
	require.NoError(t, err)
	require.Empty(t, read.Warnings())
	want, err := trained.Forward(t.Context(), x)
	require.NoError(t, err)
	got, err := read.Forward(t.Context(), x)
	require.NoError(t, err)
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
	b, err := read.Linearize(t.Context(), x)
	require.NoError(t, err)
	require.Equal(t, n.prog.P, b.P)

	// Another network of the same layers takes it over; one of others does not.
	again, err := noisy(t, 2).WithStateOf(read)
	require.NoError(t, err)
	got, err = again.Forward(t.Context(), x)
	require.NoError(t, err)
	require.True(t, mat.Equal(want, got))
	other, err := Sequential(Shape{2, 5, 5}, Flatten{}, Dense{Units: 2})
	require.NoError(t, err)
	_, err = other.WithStateOf(read)
	require.ErrorContains(t, err, `tensor "Dense1.weight" of 100 numbers`)

	// In evaluation mode the running statistics stay.
	fixed, _, err := trained.Train(t.Context(), x, y, half{}, &TrainOptions{Batch: 20, Epochs: 1, LBFGS: -1, Evaluation: true})
	require.NoError(t, err)
	before, after := running(t, trained), running(t, fixed)
	require.Equal(t, before, after)
	moved, _, err := trained.Train(t.Context(), x, y, half{}, &TrainOptions{Batch: 20, Epochs: 1, LBFGS: -1})
	require.NoError(t, err)
	require.NotEqual(t, before, running(t, moved))
}

// running returns the statistics that a network would start training from.
func running(t *testing.T, n *Network) []graph.Norm {
	t.Helper()
	p, err := n.trainingProgram()
	require.NoError(t, err)
	return p.Norms
}

// Training stops after as many epochs without a better score as it was told, and
// returns the best network; a prior precision of 0 is none.
func TestEarlyStopping(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 9))
	n, err := Sequential(Shape{3}, Dense{Units: 20}, Tanh, Dense{Units: 1})
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
	opt := &TrainOptions{Precision: make([]float64, n.prog.P), Batch: 5, Epochs: 400, LearningRate: 0.01, Schedule: Constant{}, Validation: &Validation{X: v, Y: vy, Patience: 7}}
	trained, res, err := n.Train(t.Context(), x, y, half{}, opt)
	require.NoError(t, err)
	require.Zero(t, res.Iterations, "no L-BFGS")
	require.Equal(t, res.BestEpoch+7, res.Epochs)
	require.Less(t, res.Epochs, 400)
	for epochs := range res.Epochs {
		o := *opt
		o.Epochs, o.Validation, o.LBFGS = epochs+1, nil, -1
		net, _, err := n.Train(t.Context(), x, y, half{}, &o)
		require.NoError(t, err)
		score, err := net.validationNLL(t.Context(), opt.Validation, half{})
		require.NoError(t, err)
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
	x, y := mat.NewDense(3, n.prog.D, nil), mat.NewDense(3, 2, nil)
	for want, o := range map[string]*TrainOptions{
		"one number a channel": {Batch: 1},
		"decays":               {Optimizer: Adam{Beta1: 1.5}},
		"weight decay":         {Optimizer: Adam{Decay: -1}},
		"momentum":             {Optimizer: SGD{Momentum: 1}},
		"every -1 epochs":      {Schedule: StepDecay{Epochs: -1}},
		"plateaus":             {Schedule: Plateau{Factor: 1}},
		"-1 steps":             {Steps: -1},
		"it must be positive":  {Precision: append(make([]float64, n.prog.P-1), -1)},
	} {
		_, _, err := n.Train(t.Context(), x, y, half{}, o)
		require.ErrorContains(t, err, want)
	}
	grouped, err := n.GroupOutputs([]int{0})
	require.NoError(t, err)
	_, _, err = grouped.Train(t.Context(), x, y, half{}, nil)
	require.ErrorContains(t, err, "before its outputs are grouped")
	_, err = Sequential(Shape{3}, Dropout{Ratio: 1})
	require.ErrorContains(t, err, "a ratio of 1")
	_, err = Sequential(Shape{3}, BatchNorm{Momentum: 2})
	require.ErrorContains(t, err, "a momentum of 2")
	ctx, cancel := context.WithCancel(t.Context())
	_, _, err = n.Train(ctx, normals(rand.New(rand.NewPCG(1, 1)), 40, n.prog.D), mat.NewDense(40, 2, nil), half{}, &TrainOptions{Batch: 10, Progress: func(string, int, int) { cancel() }})
	require.ErrorIs(t, err, context.Canceled)
}
