package train

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize/network"
)

// half is the log likelihood −½‖y−f‖².
type half struct{}

func (half) Expand(residual, _, _, y, f []float64) float64 {
	s := 0.0
	for i := range f {
		residual[i] = y[i] - f[i]
		s -= 0.5 * residual[i] * residual[i]
	}
	return s
}

// A trainCase is what testdata/training/generate.py writes of one training.
type trainCase struct {
	Name       string
	Layers     [][]any
	Shape      []int
	Precision  float64
	Rate       float64
	Batch      int
	Epochs     int
	X, Y       [][]float64
	VX         [][]float64 `json:"validation_x"`
	VY         [][]float64 `json:"validation_y"`
	Start      []float64
	Statistics [][2][]float64
	Orders     [][]int
	Factors    [][][][]float64 // by step, layer and example
	Rates      []float64       // by epoch
	Validation []float64       // after each epoch
	Steps      []struct {
		Loss    float64
		Theta   []float64
		Running [][2][]float64
	}
	Outputs [][]float64
}

func readTrainCases(t *testing.T) []trainCase {
	t.Helper()
	b := testref.Must(os.ReadFile("../../testdata/training/steps.json"))(t)
	var cases []trainCase
	require.NoError(t, json.Unmarshal(b, &cases))
	return cases
}

func matrixOf(rows [][]float64) *mat.Dense {
	m := mat.NewDense(len(rows), len(rows[0]), nil)
	for i, r := range rows {
		m.SetRow(i, r)
	}
	return m
}

// network returns the network at the start.
func (c *trainCase) network(t *testing.T) *network.Network {
	t.Helper()
	var layers []network.Layer
	for _, l := range c.Layers {
		number := func(i int) float64 { return l[i].(float64) }
		switch l[0] {
		case "dense":
			layers = append(layers, network.Dense{Units: int(number(1))})
		case "conv":
			layers = append(layers, network.Conv2D{Filters: int(number(1)), Kernel: int(number(2)), NoBias: true})
		case "norm":
			layers = append(layers, network.BatchNorm{Momentum: number(1)})
		case "dropout":
			layers = append(layers, network.Dropout{Ratio: number(1)})
		case "flatten":
			layers = append(layers, network.Flatten{})
		case "tanh":
			layers = append(layers, network.Tanh)
		case "relu":
			layers = append(layers, network.ReLU)
		}
	}
	net := testref.Must(network.Sequential(c.Shape, layers...))(t)
	m := modelOf(t, net)
	for _, tensor := range m.Graph.Initializers {
		if at := statistic(tensor.Name); at != nil {
			tensor.Floats = c.Statistics[at[0]][at[1]]
		}
	}
	var file bytes.Buffer
	require.NoError(t, m.Write(&file))
	net = testref.Must(network.ReadONNX(&file, nil))(t)
	net = testref.Must(net.WithTheta(c.Start))(t)
	return net
}

// modelOf returns what is written of a network.
func modelOf(t *testing.T, net *network.Network) *onnx.Model {
	t.Helper()
	var file bytes.Buffer
	require.NoError(t, net.WriteONNX(&file))
	return testref.Must(onnx.Read(&file))(t)
}

// statistic returns which batch normalization a tensor belongs to, and whether to its running mean, 0,
// or variance, 1; nil for other tensors.
func statistic(name string) []int {
	var norm int
	if _, err := fmt.Sscanf(name, "BatchNorm%d.running", &norm); err != nil {
		return nil
	}
	return []int{norm - 1, map[bool]int{strings.HasSuffix(name, "mean"): 0, strings.HasSuffix(name, "var"): 1}[true]}
}

// running returns the running statistics of a network.
func running(t *testing.T, net *network.Network) [][2][]float64 {
	t.Helper()
	var all [][2][]float64
	for _, tensor := range modelOf(t, net).Graph.Initializers {
		if at := statistic(tensor.Name); at != nil {
			if at[0] == len(all) {
				all = append(all, [2][]float64{})
			}
			all[at[0]][at[1]] = tensor.Floats
		}
	}
	return all
}

// options are those of PyTorch's training.
func (c *trainCase) options() Options {
	o := Options{LearningRate: c.Rate, Batch: c.Batch, Epochs: c.Epochs, LBFGS: -1, Schedule: Constant{}, Precision: make([]float64, len(c.Start))}
	for i := range o.Precision {
		o.Precision[i] = c.Precision
	}
	o.Optimizer = map[string]Optimizer{"momentum": SGD{Momentum: 0.9}, "nesterov": SGD{Momentum: 0.8, Nesterov: true}, "adam": Adam{}, "conv-norm-adam": Adam{},
		"sgd": SGD{}, "step": SGD{}}[c.Name]
	if o.Optimizer == nil {
		o.Optimizer = SGD{Momentum: 0.5}
	}
	switch c.Name {
	case "plateau":
		o.Schedule = Plateau{Factor: 0.5, Patience: 1}
		o.Validation = &Validation{X: matrixOf(c.VX), Y: matrixOf(c.VY)}
	case "step":
		o.Schedule = StepDecay{Epochs: 2, Factor: 0.3}
	}
	return o
}

// A watched optimizer calls after each step.
type watched struct {
	Optimizer
	after func(theta []float64, rate float64)
}

func (w watched) start(params, n int) func(theta, grad []float64, rate float64) {
	move := w.Optimizer.start(params, n)
	return func(theta, grad []float64, rate float64) {
		move(theta, grad, rate)
		w.after(theta, rate)
	}
}

// TestStepsOfPyTorch takes the steps that PyTorch took.
func TestStepsOfPyTorch(t *testing.T) {
	const tol = 1e-12 // of numbers near 1, over a few dozen steps
	for _, c := range readTrainCases(t) {
		t.Run(c.Name, func(t *testing.T) {
			net, o := c.network(t), c.options()
			step := 0
			var d *descent
			o.Optimizer = watched{o.Optimizer, func(theta []float64, rate float64) {
				want := c.Steps[step]
				require.InDelta(t, c.Rates[step/(len(c.X)/c.Batch)], rate, 1e-15, "step %d", step)
				require.InDeltaSlice(t, want.Theta, theta, tol, "step %d", step)
				now := testref.Must(d.loglik.Network(theta))(t)
				for i, r := range running(t, now) {
					require.InDeltaSlice(t, want.Running[i][0], r[0], tol)
					require.InDeltaSlice(t, want.Running[i][1], r[1], tol)
				}
				step++
			}}
			epoch, objective := 0, 0.0
			o.Objective = func(v float64) { objective = v }
			o.Progress = func(_ string, done, total int) {
				perEpoch, mean := len(c.X)/c.Batch, 0.0
				for _, s := range c.Steps[epoch*perEpoch:][:perEpoch] {
					mean += s.Loss / float64(perEpoch)
				}
				if _, ok := o.Optimizer.(watched).Optimizer.(SGD); ok {
					mean *= float64(len(c.X)) // the objective is over all rows
				}
				require.InDelta(t, mean, objective, tol*float64(len(c.X)))
				epoch++
				require.Equal(t, epoch, done)
				require.Equal(t, c.Epochs, total)
			}
			opt := testref.Must(o.withDefaults(net))(t)
			d = testref.Must(newDescent(net, matrixOf(c.X), matrixOf(c.Y), half{}, opt))(t)
			d.order = func() []int { return c.Orders[epoch] }
			var ratios []float64
			for _, l := range c.Layers {
				if l[0] == "dropout" {
					ratios = append(ratios, l[1].(float64))
				}
			}
			d.loglik.SetDropout(func(dst []float64, step, layer, example int) {
				keep := 1 / (1 - ratios[layer])
				for i, f := range c.Factors[step][layer][example] {
					require.True(t, f == 0 || math.Abs(f-keep) < 1e-8)
					if dst[i] = f; f != 0 { // the file has rounded quotients
						dst[i] = keep
					}
				}
			})
			var res Result
			trained := testref.Must(d.run(t.Context(), &res))(t)
			require.Equal(t, len(c.Steps), step)
			require.Equal(t, len(c.Steps), res.Steps)
			if v := o.Validation; v != nil {
				best := 0
				for i, loss := range c.Validation {
					if loss < c.Validation[best] {
						best = i
					}
				}
				require.Less(t, best+1, c.Epochs, "the best epoch is not the last one")
				require.Equal(t, best+1, res.BestEpoch)
				require.InDelta(t, c.Validation[best], res.ValidationNLL, tol)
				require.InDeltaSlice(t, c.Steps[(best+1)*(len(c.X)/c.Batch)-1].Theta, trained.Theta(), tol)
				return
			}
			f := testref.Must(trained.Forward(t.Context(), matrixOf(c.X)))(t)
			require.True(t, mat.EqualApprox(matrixOf(c.Outputs), f, tol), "outputs in use")
		})
	}
}

// TestAdamDecay compares the weight decay beside Adam's steps with algorithm 2 of Loshchilov
// and Hutter (2019) as PyTorch's AdamW has it: θ ← θ − ηλθ first, and then Adam's step from
// gradients that know nothing of it.
func TestAdamDecay(t *testing.T) {
	const eta, lambda, steps = 0.01, 0.3, 20
	gradient := func(step, i int) float64 { return math.Sin(float64(3*step + 5*i)) }
	theta, want := []float64{1, -2, 0.5}, []float64{1, -2, 0.5}
	move := Adam{Decay: lambda}.start(len(theta), 7)
	grad, m, v := make([]float64, 3), make([]float64, 3), make([]float64, 3)
	for step := 1; step <= steps; step++ {
		for i := range grad {
			grad[i] = gradient(step, i)
			want[i] *= 1 - eta*lambda
			m[i] = 0.9*m[i] + 0.1*grad[i]
			v[i] = 0.999*v[i] + 0.001*grad[i]*grad[i]
			mHat, vHat := m[i]/(1-math.Pow(0.9, float64(step))), v[i]/(1-math.Pow(0.999, float64(step)))
			want[i] -= eta * mHat / (math.Sqrt(vHat) + 1e-8)
		}
		move(theta, grad, eta)
		require.InDeltaSlice(t, want, theta, 1e-14)
	}
}
