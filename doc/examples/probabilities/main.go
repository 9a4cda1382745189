// Command probabilities reads a network from an ONNX file and prints calibrated class probabilities with
// their uncertainty. moons.csv are the examples that the network was trained on.
package main

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"log"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/linearize/network"
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
	p := must(funcgp.Fit(ctx, funcgp.Model{Network: net}, funcgp.Data{X: x, Y: y}, nil))
	defer p.Close()
	// Two points in the moons, one between them, one far away.
	rows := must(p.Rows(ctx, mat.NewDense(4, 2, []float64{0, 1, 1, -0.5, 0.5, 0.25, 6, 5})))
	for i, one := range must(p.Predict(ctx, rows)) {
		fmt.Printf("x %d: p(y=1) = %.3f ± %.3f, less like the training rows than %.0f %% of them\n", i, one.Probability[1], one.ProbabilitySD[1], 100*one.Novelty.Rank)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
