// Command probabilities reads a network from an ONNX file and prints class
// probabilities with their uncertainty. moons.csv are the examples that the
// network was trained on, with weight decay 0.3.
package main

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"log"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/ntk"
)

//go:embed moons.onnx
var model []byte

//go:embed moons.csv
var table []byte

func main() {
	ctx := context.Background()
	net := must(network.ReadONNX(bytes.NewReader(model), nil))
	x, y := mat.NewDense(150, 2, nil), mat.NewDense(150, 1, nil)
	for i, line := range bytes.Fields(table)[1:] { // below the header
		var a, b, class float64
		must(fmt.Sscanf(string(line), "%g,%g,%g", &a, &b, &class))
		x.SetRow(i, []float64{a, b})
		y.Set(i, 0, class)
	}
	train := must(net.Linearize(ctx, x))
	prior := must(ntk.NewIsotropic(0.3, nil)) // the weight decay
	post := must(gp.Refit(ctx, ntk.New(prior, net.Theta(), nil), train, y, glm.Bernoulli{}, nil))

	// Two points in the moons, one between them, one far away.
	test := must(net.Linearize(ctx, mat.NewDense(4, 2, []float64{0, 1, 1, -0.5, 0.5, 0.25, 6, 5})))
	var f, cov, p, sd mat.Dense
	check(post.PredictTo(ctx, &f, &cov, test))
	check(glm.DefaultLink(glm.Bernoulli{}, 1).PredictTo(&p, &sd, glm.Bernoulli{}, &f, &cov))
	for i := range 4 {
		fmt.Printf("x = %4v: p(y=1) = %.3f ± %.3f\n", test.X.RawRowView(i), p.At(i, 0), sd.At(i, 0))
	}
}

func must[T any](v T, err error) T { check(err); return v }

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
