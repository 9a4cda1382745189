package evidence_test

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/evidence"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// The prior variances of an intercept and a slope, and the noise variance: the
// targets do not depend on x, so the slope's variance runs to 0.
func ExampleMaximize() {
	x, y := []float64{-2, -1, 0, 1, 2}, []float64{3.1, 2.9, 3, 2.9, 3.1}
	j := mat.NewDense(len(x), 2, nil)
	for i, v := range x {
		j.SetRow(i, []float64{1, v})
	}
	intercept, slope := linearize.Span{Name: "intercept", Rows: 1, Cols: 1}, linearize.Span{Name: "slope", Offset: 1, Rows: 1, Cols: 1}
	train := &linearize.Batch{
		X: mat.NewDense(len(x), 1, x), F: mat.NewDense(len(x), 1, nil), P: 2,
		Blocks: []linearize.Block{&linearize.Full{J: j, Params: []linearize.Span{intercept, slope}, C: 1}},
	}
	lik, err := glm.NewGaussian(0.1)
	if err != nil {
		fmt.Println(err)
		return
	}
	prior, err := ntk.NewIsotropic(1, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	p := &evidence.Problem{
		X: train, Y: gp.NewTargets(mat.NewDense(len(y), 1, y), lik), Theta: []float64{0, 0}, Prior: prior,
		Groups: ntk.ByTensor([]linearize.Span{intercept, slope}, 1),
	}
	best, err := evidence.Maximize(context.Background(), p, evidence.Refit, &evidence.Options{PerGroup: true, Noise: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, g := range best.Prior.Groups() {
		fmt.Printf("%s: prior variance %.2f\n", g.Name, 1/g.Precision)
	}
	noise := make([]float64, 1)
	best.Likelihood.(*glm.Gaussian).NoiseTo(noise, 1)
	fmt.Printf("noise variance %.4f, log evidence %.3f, before %.3f\n", noise[0], best.Evidence.Value, best.Start.Evidence.Value)
	// Output:
	// intercept: prior variance 9.00
	// slope: prior variance 0.00
	// noise variance 0.0100, log evidence 0.212, before -7.723
}
