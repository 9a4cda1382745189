package gp_test

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// line is the model f = θ₀ + θ₁ x at θ* = 0, linear in its parameters.
func line(x ...float64) *linearize.Batch {
	n := len(x)
	j := mat.NewDense(n, 2, nil)
	for i, v := range x {
		j.SetRow(i, []float64{1, v})
	}
	params := []linearize.Span{{Name: "θ", Rows: 1, Cols: 2}}
	return &linearize.Batch{
		X: mat.NewDense(n, 1, x), F: mat.NewDense(n, 1, nil), P: 2,
		Blocks: []linearize.Block{&linearize.Full{J: j, Params: params, C: 1}},
	}
}

// Bayesian linear regression through the function space: three points of the
// line 1 + 2x with noise of variance 0.01, and a prior of variance 100.
func ExampleRefit() {
	ctx := context.Background()
	prior, err := ntk.NewIsotropic(0.01, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	lik, err := glm.NewGaussian(0.01)
	if err != nil {
		fmt.Println(err)
		return
	}
	kernel := ntk.New(prior, []float64{0, 0})
	train, y := line(0, 1, 2), mat.NewDense(3, 1, []float64{1, 3, 5})
	post, err := gp.Refit(ctx, kernel, train, gp.NewTargets(y, lik), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	var mean, cov mat.Dense
	if err := post.PredictTo(ctx, &mean, &cov, line(1, 10)); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("f(1) = %.3f, variance %.4f\n", mean.At(0, 0), cov.At(0, 0))
	fmt.Printf("f(10) = %.3f, variance %.4f\n", mean.At(1, 0), cov.At(1, 0))
	fmt.Printf("log evidence %.3f\n", post.EvidenceRefit().Value)
	// Output:
	// f(1) = 3.000, variance 0.0033
	// f(10) = 21.000, variance 0.4083
	// log evidence -5.980
}
