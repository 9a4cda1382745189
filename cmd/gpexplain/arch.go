package main

import (
	"slices"
	"strconv"
	"strings"

	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/linearize/network"
)

// An arch is a network to train.
type arch struct {
	name   string
	widths []int // of an mlp: hidden layers, then outputs
	act    network.Activation
	drop   float64 // share of the elements that training drops after each hidden layer
}

// archNames are the architectures for 28×28 pictures.
var archNames = []string{"thesis-cnn", "lenet5", "bn-cnn"}

var activationNames = []string{"relu", "tanh"}

var activations = map[string]network.Activation{"relu": network.ReLU, "tanh": network.Tanh}

// widest is the largest width of a layer of an mlp.
const widest = 1 << 20

// parseArch reads thesis-cnn, lenet5, bn-cnn or mlp:128-64-10.
func parseArch(name, activation string, drop float64) (*arch, error) {
	a := &arch{name: name, act: activations[activation], drop: drop}
	if slices.Contains(archNames, name) {
		return a, nil
	}
	list, ok := strings.CutPrefix(name, "mlp:")
	if !ok {
		return nil, job.NotOneOf("arch", name, append(slices.Clone(archNames), "mlp:WIDTHS"))
	}
	for field := range strings.SplitSeq(list, "-") {
		k, err := strconv.Atoi(field)
		if err != nil || k < 1 || k > widest {
			return nil, job.Usagef("{arch} %q: widths are numbers from 1 to %d, such as mlp:128-64-10", name, widest)
		}
		a.widths = append(a.widths, k)
	}
	return a, nil
}

// outputs returns the last width of an mlp, or 0 to let the data determine it.
func (a *arch) outputs() int {
	if a.widths == nil {
		return 0
	}
	return a.widths[len(a.widths)-1]
}

// layers returns the architecture with c outputs.
func (a *arch) layers(c int) []network.Layer {
	if a.widths != nil {
		layers := []network.Layer{network.Flatten{}}
		for i, k := range a.widths {
			layers = append(layers, network.Dense{Units: k})
			if i < len(a.widths)-1 {
				layers = append(layers, a.hidden(a.act)...)
			}
		}
		return layers
	}
	switch a.name {
	case "bn-cnn":
		// Two 5×5 convolutions of 8 and 16 filters, each with a batch normalization, a ReLU and a
		// 2×2 max pool, and a hidden layer of 64 before the outputs.
		const kernel = 5
		return slices.Concat([]network.Layer{
			network.Conv2D{Filters: 8, Kernel: kernel, NoBias: true}, network.BatchNorm{}, network.ReLU, network.MaxPool2D{Size: 2},
			network.Conv2D{Filters: 16, Kernel: kernel, NoBias: true}, network.BatchNorm{}, network.ReLU, network.MaxPool2D{Size: 2},
			network.Flatten{}, network.Dense{Units: 64},
		}, a.hidden(network.ReLU), []network.Layer{network.Dense{Units: c}})
	case "lenet5":
		return a.convolutional(6, 16, 120, 84, c)
	}
	return a.convolutional(3, 8, 25, 25, c)
}

// hidden returns the layers that follow a hidden dense layer.
func (a *arch) hidden(act network.Activation) []network.Layer {
	if a.drop > 0 {
		return []network.Layer{act, network.Dropout{Ratio: a.drop}}
	}
	return []network.Layer{act}
}

// convolutional returns two 5×5 convolutions with their numbers of filters,
// each with a ReLU and a 2×2 max pool, and two hidden layers before the outputs.
func (a *arch) convolutional(filters1, filters2, dense1, dense2, c int) []network.Layer {
	const kernel = 5
	return slices.Concat([]network.Layer{
		network.Conv2D{Filters: filters1, Kernel: kernel}, network.ReLU, network.MaxPool2D{Size: 2},
		network.Conv2D{Filters: filters2, Kernel: kernel}, network.ReLU, network.MaxPool2D{Size: 2},
		network.Flatten{}, network.Dense{Units: dense1},
	}, a.hidden(network.ReLU), []network.Layer{network.Dense{Units: dense2}}, a.hidden(network.ReLU), []network.Layer{network.Dense{Units: c}})
}

// parameters returns the number of parameters of an mlp with d inputs, as a float64 since it may be far too
// large for an int. It returns 0 for the other architectures, which are small.
func (a *arch) parameters(d int) float64 {
	p, in := 0.0, float64(d)
	for _, k := range a.widths {
		p += (in + 1) * float64(k)
		in = float64(k)
	}
	return p
}
