package cg_test

import (
	"context"
	"fmt"
	"log"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/cg"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// The exact posterior of 500 examples whose 500×500 kernel is never formed.
func Example() {
	ctx := context.Background()
	const n = 500
	// f(x;θ) = Σ_k θ_k cos kx at θ* = 0, k < 5
	waves := func(x []float64) *linearize.Batch {
		j := mat.NewDense(len(x), 5, nil)
		j.Apply(func(i, k int, _ float64) float64 { return math.Cos(float64(k) * x[i]) }, j)
		params := []linearize.Span{{Name: "theta", Rows: 1, Cols: 5}}
		return &linearize.Batch{F: mat.NewDense(len(x), 1, nil), P: 5, Blocks: []linearize.Block{&linearize.Full{J: j, Params: params, C: 1}}}
	}
	x, y := make([]float64, n), mat.NewDense(n, 1, nil)
	for i := range n {
		x[i] = math.Pi * float64(i) / n
		y.Set(i, 0, math.Exp(math.Cos(x[i])))
	}
	prior, err := ntk.NewIsotropic(1, nil)
	if err != nil {
		log.Fatal(err)
	}
	noise, err := glm.NewGaussian(0.01)
	if err != nil {
		log.Fatal(err)
	}
	kernel := ntk.New(prior, make([]float64, 5))
	train := waves(x)
	post, err := cg.Refit(ctx, kernel, train, gp.NewTargets(y, noise), nil)
	if err != nil {
		log.Fatal(err)
	}
	var mean, cov mat.Dense
	if err := post.PredictTo(ctx, &mean, &cov, waves([]float64{1})); err != nil {
		log.Fatal(err)
	}
	exact, err := gp.Refit(ctx, kernel, train, gp.NewTargets(y, noise), nil)
	if err != nil {
		log.Fatal(err)
	}
	var same mat.Dense
	if err := exact.PredictTo(ctx, &same, nil, waves([]float64{1})); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("f(1) = %.4f ± %.4f\n", mean.At(0, 0), math.Sqrt(cov.At(0, 0)))
	fmt.Println("as the exact posterior:", math.Abs(mean.At(0, 0)-same.At(0, 0)) < 1e-8)
	// Output:
	// f(1) = 1.7163 ± 0.0097
	// as the exact posterior: true
}
