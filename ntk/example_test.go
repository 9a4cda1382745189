package ntk_test

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/ntk"
)

// The prior of a network's function values at four inputs.
func Example() {
	net, err := network.Sequential(network.Shape{1}, network.Dense{Units: 8}, network.Tanh, network.Dense{Units: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	b, err := net.Linearize(context.Background(), mat.NewDense(4, 1, []float64{-1, 0, 1, 2}))
	if err != nil {
		fmt.Println(err)
		return
	}
	prior, err := ntk.NewIsotropic(10, nil) // N(0, I/10)
	if err != nil {
		fmt.Println(err)
		return
	}
	k := ntk.New(prior, net.Theta())
	kernel, cross := new(mat.Dense), new(mat.Dense)
	k.BlockTo(kernel, b, b)
	k.BlockTo(cross, b.Slice(3, 4), b.Slice(0, 3))
	rows, cols := kernel.Dims()
	fmt.Println(rows, cols, mat.Equal(kernel, kernel.T()))
	rows, cols = cross.Dims()
	fmt.Println(rows, cols)
	// Output:
	// 8 8 true
	// 2 6
}

// One precision a layer, and the kernel of one layer alone (E10).
func ExampleNTK_GroupKernel() {
	net, err := network.Sequential(network.Shape{1}, network.Dense{Units: 8}, network.Tanh, network.Dense{Units: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	b, err := net.Linearize(context.Background(), mat.NewDense(2, 1, []float64{0, 1}))
	if err != nil {
		fmt.Println(err)
		return
	}
	groups := ntk.ByLayer(ntk.Spans(b), 1)
	groups[0].Precision = 4
	prior, err := ntk.NewLayerwise(b.P, groups, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	k := ntk.New(prior, net.Theta())
	whole, sum, part := new(mat.Dense), mat.NewDense(2, 2, nil), new(mat.Dense)
	k.BlockTo(whole, b, b)
	for g := range k.Groups() {
		k.GroupKernel(g).BlockTo(part, b, b)
		sum.Add(sum, part)
	}
	fmt.Println(k.Groups(), mat.EqualApprox(whole, sum, 1e-12))
	// Output:
	// 2 true
}
