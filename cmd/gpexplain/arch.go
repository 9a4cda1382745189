package main

import (
	"strconv"
	"strings"

	"github.com/funcgp/funcgp/cmd/gpexplain/internal/console"
	"github.com/funcgp/funcgp/cmd/gpexplain/internal/problem"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/linearize/network"
)

// An arch is a network to train.
type arch struct {
	name   string
	widths []int // of an mlp: hidden layers, then outputs
	act    network.Activation
}

var activationNames = []string{"relu", "tanh"}

var activations = map[string]network.Activation{"relu": network.ReLU, "tanh": network.Tanh}

// widest bounds a layer of an mlp.
const widest = 1 << 20

// parseArch reads thesis-cnn, lenet5 or mlp:128-64-10.
func parseArch(name, activation string) (*arch, error) {
	act, ok := activations[activation]
	if !ok {
		return nil, console.NotOneOf("activation", activation, activationNames)
	}
	a := &arch{name: name, act: act}
	if name == "thesis-cnn" || name == "lenet5" {
		return a, nil
	}
	list, ok := strings.CutPrefix(name, "mlp:")
	if !ok {
		return nil, console.NotOneOf("arch", name, []string{"thesis-cnn", "lenet5", "mlp:WIDTHS"})
	}
	for field := range strings.SplitSeq(list, "-") {
		k, err := strconv.Atoi(field)
		if err != nil || k < 1 || k > widest {
			return nil, console.Usagef("--arch %q: widths are numbers from 1 to %d, such as mlp:128-64-10", name, widest)
		}
		a.widths = append(a.widths, k)
	}
	return a, nil
}

// outputs returns C for data, a likelihood and classes, which may be "" and nil:
// the mlp's last width, else one for two classes or a regression, else one a
// class.
func (a *arch) outputs(d *dataset.Data, likelihood string, classes []int) int {
	if a.widths != nil {
		return a.widths[len(a.widths)-1]
	}
	if !d.IntegerLabels || likelihood != "" && !problem.HasClasses(problem.LikelihoodNamed(likelihood)) {
		return 1
	}
	k := len(classes)
	if k == 0 {
		k = len(d.Classes())
	}
	if k == 2 && (likelihood == "" || !problem.IsSoftmax(problem.LikelihoodNamed(likelihood))) {
		return 1
	}
	return k
}

// layers returns the architecture with c outputs.
func (a *arch) layers(c int) []network.Layer {
	if a.widths != nil {
		layers := []network.Layer{network.Flatten{}}
		for i, k := range a.widths {
			layers = append(layers, network.Dense{Units: k})
			if i < len(a.widths)-1 {
				layers = append(layers, a.act)
			}
		}
		return layers
	}
	if a.name == "lenet5" {
		return convolutional(6, 16, 120, 84, c)
	}
	return convolutional(3, 8, 25, 25, c)
}

// convolutional returns two 5×5 convolutions with their numbers of filters,
// each with a ReLU and a 2×2 max pool, and two hidden layers before the outputs.
func convolutional(filters1, filters2, dense1, dense2, c int) []network.Layer {
	const kernel = 5
	return []network.Layer{
		network.Conv2D{Filters: filters1, Kernel: kernel}, network.ReLU, network.MaxPool2D{Size: 2},
		network.Conv2D{Filters: filters2, Kernel: kernel}, network.ReLU, network.MaxPool2D{Size: 2},
		network.Flatten{},
		network.Dense{Units: dense1}, network.ReLU,
		network.Dense{Units: dense2}, network.ReLU,
		network.Dense{Units: c},
	}
}

// parameters is P of an mlp on d inputs, as a float64 since it may be far too
// large; 0 for the other architectures, which are small.
func (a *arch) parameters(d int) float64 {
	p, in := 0.0, float64(d)
	for _, k := range a.widths {
		p += (in + 1) * float64(k)
		in = float64(k)
	}
	return p
}
