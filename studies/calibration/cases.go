package calibration

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/linearize/train"
)

// A kase is a problem for each of its splits, and the posteriors that are
// measured on it.
type kase struct {
	name   string
	what   string // for the table
	splits []int
	open   func(ctx context.Context, o *options, split int) (*problem, error)
	fits   []fit
}

// both are the exact posteriors at θ* and after a refit, the default of the
// command first.
func both(delta float64, inducing int) []fit {
	return []fit{{name: "refit", delta: delta, refit: true, inducing: inducing}, {name: "network", delta: delta, inducing: inducing}}
}

var one = []int{0}

func allCases(o *options) ([]*kase, error) {
	cases := []*kase{
		{name: "digits", what: "built-in digits 4/9, thesis CNN, N = 1,500", splits: one, open: openDigits, fits: both(10, 0)},
		{name: "thesis-cnn", what: "MNIST 4/9, thesis CNN, N = 3,000", splits: one, open: openThesis, fits: both(10, 0)},
	}
	cases = append(cases, uciCases()...)
	cases = append(cases,
		&kase{name: "snelson", what: "regression, 1-25×5-1 tanh, N = 150", splits: one, open: openToy("snelson", 0.63), fits: both(0.63, 0)},
		&kase{name: "two-moons", what: "two classes, 2-25×5-1 tanh, N = 150", splits: one, open: openToy("two-moons", 0.13), fits: both(0.13, 0)},
		&kase{name: "friedman", what: "Friedman's first function, 10-50-50-1 tanh, N = 500", splits: ten, open: openFriedman, fits: both(1, 0)},
	)
	cases = append(cases, withoutDecay()...)
	if o.lenet != "" {
		cases = append(cases, &kase{name: "lenet5", what: "MNIST, LeNet-5, N = 55,000", splits: one, open: openLeNet,
			fits: []fit{{name: "network", delta: 5, inducing: 200, sample: 2000, keep: true}}})
	}
	return append(cases,
		&kase{name: "mnist10", what: "MNIST, 784-32-10 tanh, N = 2,000", splits: one, open: openMNIST10(nil), fits: []fit{
			{name: "network, 8,000 kept rows", delta: 1, kept: 8000}, {name: "network, Nyström", delta: 1, inducing: 200}}},
	), nil
}

var ten = []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}

// uciCases are the tables, networks 2×50 tanh at precision 3.
func uciCases() []*kase {
	var cases []*kase
	for _, t := range []struct {
		name     string
		outputs  int
		inducing int
	}{
		{"australian", 1, 0}, {"breast_cancer", 1, 0}, {"ionosphere", 1, 0}, {"glass", 6, 0}, {"banana", 1, 0}, {"digits", 10, 200}, {"satellite", 6, 300},
	} {
		k := &kase{name: "uci/" + t.name, splits: ten, open: openUCI(t.name, t.outputs, nil), fits: both(uciPrecision, t.inducing)}
		if t.inducing > 0 {
			k.fits = k.fits[1:] // a refit passes over the data many times
		}
		cases = append(cases, k)
	}
	few := &kase{name: "few/australian-2", what: "two logits, few inducing examples", splits: ten, open: openUCI("australian", 2, nil)}
	for _, m := range []int{20, 50, 100, 200} {
		few.fits = append(few.fits, fit{name: fmt.Sprintf("network, M = %d", m), delta: uciPrecision, inducing: m})
	}
	return append(cases, &kase{name: "uci/australian-2", what: "two logits", splits: ten, open: openUCI("australian", 2, nil), fits: both(uciPrecision, 0)}, few)
}

const uciPrecision = 3

// plain is how networks without decay are trained.
var plain = &sgd{rate: .01, momentum: .9, batch: 64, epochs: 50}

// withoutDecay are networks that have seen no prior: their parameters are no
// mode at any precision.
func withoutDecay() []*kase {
	var fits []fit
	for _, delta := range []float64{.1, .3, 1, 3, 10, 30} {
		d := strconv.FormatFloat(delta, 'g', -1, 64)
		fits = append(fits, fit{name: "refit " + d, delta: delta, refit: true}, fit{name: "network " + d, delta: delta})
	}
	// Six or ten classes take long: a refit at four precisions, θ* at two.
	var few, fewNystrom []fit
	for _, f := range fits {
		if f.delta < .3 || f.delta > 10 || !f.refit && f.delta != 1 && f.delta != 10 {
			continue
		}
		few = append(few, f)
		f.inducing = 200
		fewNystrom = append(fewNystrom, f)
	}
	return []*kase{
		{name: "plain/mnist49", what: "MNIST 4/9, 784-64-1, N = 1,000", splits: []int{0, 1}, open: openMNIST49Plain(false), fits: fits},
		{name: "plain/mnist49n", what: "the same, pixels less .1307 divided by .3081", splits: []int{0, 1}, open: openMNIST49Plain(true), fits: fits},
		{name: "plain/australian", splits: ten, open: openUCI("australian", 1, plain), fits: fits},
		{name: "plain/glass", splits: ten, open: openUCI("glass", 6, &sgd{rate: .01, momentum: .9, batch: 32, epochs: 200}), fits: few},
		{name: "plain/mnist10", what: "MNIST, 784-32-10, N = 2,000", splits: one, open: openMNIST10(plain), fits: fewNystrom},
	}
}

// mlp returns hidden layers of these widths, the last of which is the output.
func mlp(act network.Activation, widths ...int) []network.Layer {
	layers := []network.Layer{network.Flatten{}}
	for i, w := range widths {
		layers = append(layers, network.Dense{Units: w})
		if i < len(widths)-1 {
			layers = append(layers, act)
		}
	}
	return layers
}

// thesisCNN is the thesis' network for two classes.
func thesisCNN() []network.Layer {
	return []network.Layer{
		network.Conv2D{Filters: 3, Kernel: 5}, network.ReLU, network.MaxPool2D{Size: 2},
		network.Conv2D{Filters: 8, Kernel: 5}, network.ReLU, network.MaxPool2D{Size: 2},
		network.Flatten{}, network.Dense{Units: 25}, network.ReLU, network.Dense{Units: 25}, network.ReLU, network.Dense{Units: 1},
	}
}

var image = network.Shape{1, 28, 28}

func openDigits(ctx context.Context, o *options, _ int) (*problem, error) {
	p := &problem{lik: glm.Bernoulli{}, members: 5, recipe: recipe{shape: image, layers: thesisCNN(), delta: 10, file: "../testdata/builtin.onnx"}}
	d, err := openImages(ctx, "digits", []int{4, 9})
	if err != nil {
		return nil, err
	}
	// The rows after those of training are held out.
	p.train, p.valid, p.test = d.trainRows(0, 1500), d.trainRows(1500, 1725), d.testRows(0)
	return p, nil
}

func openThesis(ctx context.Context, o *options, _ int) (*problem, error) {
	ref, err := readReference(filepath.Join(o.reference, "thesis-cnn", "reference.safetensors"))
	if err != nil {
		return nil, err
	}
	d, err := openImages(ctx, filepath.Join(o.data, "mnist"), []int{4, 9})
	if err != nil {
		return nil, err
	}
	p := &problem{lik: glm.Bernoulli{}, members: 5, recipe: recipe{shape: image, layers: thesisCNN(), delta: 10, opt: train.Options{Epochs: 30, LBFGS: 200},
		file: filepath.Join(o.reference, "thesis-cnn", "model.onnx")}}
	train := ref.ints("train_index")
	if p.train, err = d.rowsOf(train); err != nil {
		return nil, err
	}
	p.valid, p.test = d.without(train, 450), d.testRows(0)
	return p, nil
}

// openMNIST10 opens MNIST's first 2,000 digits and the next 300, and the test
// digits.
func openMNIST10(s *sgd) func(ctx context.Context, o *options, _ int) (*problem, error) {
	return func(ctx context.Context, o *options, _ int) (*problem, error) {
		d, err := openImages(ctx, filepath.Join(o.data, "mnist"), nil)
		if err != nil {
			return nil, err
		}
		p := &problem{lik: glm.Categorical{}, members: 5, recipe: recipe{shape: image, layers: mlp(network.Tanh, 32, 10), delta: 1, sgd: s,
			opt: train.Options{Epochs: 60, Batch: 64, LearningRate: 2e-3, LBFGS: 300}}}
		p.train, p.valid, p.test = d.trainRows(0, 2000), d.trainRows(2000, 2300), d.testRows(0)
		return p, nil
	}
}

func openMNIST49Plain(normalized bool) func(ctx context.Context, o *options, split int) (*problem, error) {
	return func(ctx context.Context, o *options, split int) (*problem, error) {
		d, err := openImages(ctx, filepath.Join(o.data, "mnist"), []int{4, 9})
		if err != nil {
			return nil, err
		}
		p := &problem{lik: glm.Bernoulli{}, members: 5, recipe: recipe{shape: image, layers: mlp(network.ReLU, 64, 1), sgd: plain}}
		p.recipe.first = split * p.members
		p.train, p.valid, p.test = d.trainRows(0, 1000), d.trainRows(1000, 1150), d.testRows(0)
		if normalized {
			for _, of := range []part{p.train, p.valid, p.test} {
				of.x.Apply(func(_, _ int, v float64) float64 { return (v - .1307) / .3081 }, of.x)
			}
		}
		return p, nil
	}
}

// openToy opens a reference network with its training rows and 1,000 test rows.
func openToy(name string, delta float64) func(ctx context.Context, o *options, _ int) (*problem, error) {
	return func(_ context.Context, o *options, _ int) (*problem, error) {
		dir := filepath.Join(o.reference, name)
		ref, err := readReference(filepath.Join(dir, "reference.safetensors"))
		if err != nil {
			return nil, err
		}
		p := &problem{lik: glm.Bernoulli{}, members: 5, train: part{ref.matrix("x_train"), ref.matrix("y_train")}, test: part{ref.matrix("x_heldout"), ref.matrix("y_heldout")}}
		if name == "snelson" {
			if p.lik, err = glm.NewGaussian(0.1); err != nil {
				return nil, err
			}
		}
		_, d := p.train.x.Dims()
		p.recipe = recipe{shape: network.Shape{d}, layers: mlp(network.Tanh, 25, 25, 25, 25, 25, 1), delta: delta, file: filepath.Join(dir, "model.onnx"),
			opt: train.Options{Epochs: 2000, Batch: 150, LearningRate: 5e-3, LBFGS: 1000}}
		return p, nil
	}
}
