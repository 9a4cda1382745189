package score_test

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/integral"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/glm/score"
)

// A site is what a likelihood tells about the function at one example: its
// log-probability, the residual r and Λ with a root (E3, E4).
func ExampleCategorical_Expand() {
	c := 3
	f := []float64{2, 0, -1}
	residual, lambda, root := make([]float64, c), make([]float64, c*c), make([]float64, c*c)
	logp := glm.Categorical{}.Expand(residual, lambda, root, []float64{0}, f)
	fmt.Printf("log p  %.4f\n", logp)
	fmt.Printf("r      %.4f\n", residual)
	fmt.Printf("Λ      %.4f\n", mat.Formatted(mat.NewDense(c, c, lambda), mat.Prefix("       ")))
	// Output:
	// log p  -0.1698
	// r      [0.1562 -0.1142 -0.0420]
	// Λ      ⎡ 0.1318  -0.0964  -0.0354⎤
	//        ⎢-0.0964   0.1012  -0.0048⎥
	//        ⎣-0.0354  -0.0048   0.0402⎦
}

// Uncertainty about f pulls the probability towards one half: three inputs
// with the same logit and a growing variance.
func ExampleExact() {
	f := mat.NewDense(3, 1, []float64{3, 3, 3})
	cov := mat.NewDense(3, 1, []float64{0, 4, 100})
	var mean, sd mat.Dense
	if err := (predictive.Exact{}).PredictTo(&mean, &sd, glm.Bernoulli{}, f, cov); err != nil {
		fmt.Println(err)
		return
	}
	for t := range 3 {
		fmt.Printf("variance %3.0f: p = %.4f ± %.4f\n", cov.At(t, 0), mean.At(t, 0), sd.At(t, 0))
	}
	// Output:
	// variance   0: p = 0.9526 ± 0.0000
	// variance   4: p = 0.8704 ± 0.1868
	// variance 100: p = 0.6161 ± 0.4460
}

// The predictive of any response: the expected cost of an input whose logit is
// N(1, 9), where a wrong decision costs 10 and asking a person 1.
func ExampleExpectation() {
	cost := func(f float64) float64 {
		p := 1 / (1 + math.Exp(-f))
		return min(10*p, 10*(1-p), 1)
	}
	fmt.Printf("%.4f\n", integral.Expectation(cost, 1, 9))
	// Output:
	// 0.6723
}

// A prediction that is wrong and sure has a finite cost, though its
// probability underflows.
func ExampleLink_logPredictive() {
	y := mat.NewDense(1, 1, []float64{1})
	f := mat.NewDense(1, 1, []float64{-800})
	cov := mat.NewDense(1, 1, []float64{2})
	logp := make([]float64, 1)
	for _, link := range []predictive.Link{predictive.MAP{}, predictive.Exact{}} {
		if err := link.LogPredictiveTo(logp, glm.Bernoulli{}, y, f, cov); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%T: NLL %.1f\n", link, score.NLL(logp))
	}
	// Output:
	// predictive.MAP: NLL 800.0
	// predictive.Exact: NLL 799.0
}

// The variance of a class has a part that more data would remove.
func ExampleSplitter() {
	f := mat.NewDense(2, 1, []float64{0, 0})
	cov := mat.NewDense(2, 1, []float64{0.01, 25})
	var aleatoric, epistemic mat.Dense
	if err := (predictive.Exact{}).SplitTo(&aleatoric, &epistemic, glm.Bernoulli{}, f, cov); err != nil {
		fmt.Println(err)
		return
	}
	for t := range 2 {
		fmt.Printf("aleatoric %.3f, epistemic %.3f\n", aleatoric.At(t, 0), epistemic.At(t, 0))
	}
	// Output:
	// aleatoric 0.249, epistemic 0.001
	// aleatoric 0.075, epistemic 0.175
}

func ExampleECE() {
	prob := mat.NewDense(3, 2, []float64{0.9, 0.1, 0.2, 0.8, 0.6, 0.4})
	labels := []int{0, 1, 1}
	entropy := make([]float64, 3)
	score.EntropyTo(entropy, prob)
	fmt.Printf("accuracy %.3f, ECE %.3f, Brier %.3f, entropy %.3f\n",
		score.Accuracy(prob, labels), score.ECE(prob, labels), score.Brier(prob, labels), entropy)
	// Output:
	// accuracy 0.667, ECE 0.300, Brier 0.273, entropy [0.325 0.500 0.673]
}

func ExampleNewGaussianMatrix() {
	_, err := glm.NewGaussianMatrix(mat.NewSymDense(2, []float64{1, 2, 2, 1}))
	fmt.Println(err)
	lik, err := glm.NewGaussianMatrix(mat.NewSymDense(2, []float64{1, 0.5, 0.5, 1}))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%.4f\n", lik.LogProb([]float64{0, 0}, []float64{1, 1})+math.Log(2*math.Pi))
	// Output:
	// glm: the 2×2 noise covariance is not positive definite
	// -0.5228
}

// A network gives these logits to eight rows that the posterior was fitted without;
// one is wrong. Unscaled, the posterior predicts them worse than the network alone
// does; scaled, better.
func ExampleCalibrate() {
	mean := mat.NewDense(8, 1, []float64{6, -5, 4, -6, 5, -2, 7, -4})
	cov := mat.NewDense(8, 1, []float64{30, 25, 90, 20, 25, 120, 30, 28})
	y := mat.NewDense(8, 1, []float64{1, 0, 1, 0, 1, 1, 1, 0})
	c, err := score.Calibrate(context.Background(), glm.Bernoulli{}, y, mean, cov, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	network, err := score.ScoreOf(nil, glm.Bernoulli{}, y, mean, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("scale %.2f\n", c.Scale)
	fmt.Printf("NLL %.3f, unscaled %.3f, network alone %.3f\n", c.NLL, c.Unscaled, network.NLL)
	fmt.Println("most surprising row:", network.Surprising(1))
	// Output:
	// scale 0.28
	// NLL 0.196, unscaled 0.288, network alone 0.273
	// most surprising row: [5]
}
