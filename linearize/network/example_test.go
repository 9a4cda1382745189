package network_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/linearize/train"
	"github.com/funcgp/funcgp/ntk"
)

// From an ONNX file to probabilities with their uncertainty: a network that
// tells negative from positive numbers, trained on six of them.
func ExampleReadONNX() {
	ctx := context.Background()
	x := mat.NewDense(6, 1, []float64{-3, -2, -1, 1, 2, 3})
	y := mat.NewDense(6, 1, []float64{0, 0, 0, 1, 1, 1})
	file := trained(ctx, x, y) // or a file that another tool exported

	net, err := network.ReadONNX(file, nil)
	if err != nil {
		log.Fatal(err)
	}
	train, err := net.Linearize(ctx, x)
	if err != nil {
		log.Fatal(err)
	}
	prior, err := ntk.NewIsotropic(1, nil) // the weight decay of the training
	if err != nil {
		log.Fatal(err)
	}
	post, err := gp.Refit(ctx, ntk.New(prior, net.Theta()), train, gp.NewTargets(y, glm.Bernoulli{}), nil)
	if err != nil {
		log.Fatal(err)
	}
	test, err := net.Linearize(ctx, mat.NewDense(3, 1, []float64{-2.5, 0, 2.5}))
	if err != nil {
		log.Fatal(err)
	}
	var f, cov, p, sd mat.Dense
	if err := post.PredictTo(ctx, &f, &cov, test); err != nil {
		log.Fatal(err)
	}
	if err := predictive.DefaultLink(glm.Bernoulli{}, 1).PredictTo(&p, &sd, glm.Bernoulli{}, &f, &cov); err != nil {
		log.Fatal(err)
	}
	for i := range 3 {
		fmt.Printf("x = %4.1f: p = %.2f ± %.2f\n", test.X.At(i, 0), p.At(i, 0), sd.At(i, 0))
	}
	// Output:
	// x = -2.5: p = 0.19 ± 0.17
	// x =  0.0: p = 0.50 ± 0.23
	// x =  2.5: p = 0.81 ± 0.17
}

// trained returns a network of two layers in ONNX.
func trained(ctx context.Context, x, y *mat.Dense) io.Reader {
	net, err := network.Sequential(network.Shape{1}, network.Dense{Units: 3}, network.Tanh, network.Dense{Units: 1})
	if err != nil {
		log.Fatal(err)
	}
	net, _, err = train.MAP(ctx, net, x, y, glm.Bernoulli{}, nil)
	if err != nil {
		log.Fatal(err)
	}
	var file bytes.Buffer
	if err := net.WriteONNX(&file); err != nil {
		log.Fatal(err)
	}
	return &file
}
