package gptest_test

import (
	"fmt"
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/gptest"
)

// logisticNoise is y = f + noise with the logistic distribution, which has
// heavier tails than a Gaussian.
type logisticNoise struct{ scale float64 }

var _ gp.Likelihood = logisticNoise{}

// Expand uses z = |y − f|/scale: log p = −z − 2 log(1+e^{−z}) − log scale.
func (n logisticNoise) Expand(residual, lambda, root, y, f []float64) float64 {
	d := y[0] - f[0]
	z := math.Abs(d) / n.scale
	l := 1 / (2 * n.scale * n.scale * math.Pow(math.Cosh(z/2), 2))
	if residual != nil {
		residual[0] = math.Copysign(math.Tanh(z/2)/n.scale, d)
	}
	if lambda != nil {
		lambda[0] = l
	}
	if root != nil {
		root[0] = math.Sqrt(l)
	}
	return -z - 2*math.Log1p(math.Exp(-z)) - math.Log(n.scale)
}

func (logisticNoise) MeanTo(dst, f []float64) { copy(dst, f) }

// testLogisticNoise is what the test of one's own package calls
// TestLogisticNoise.
func testLogisticNoise(t *testing.T) {
	gptest.Likelihood(t, gptest.LikelihoodCase{
		Likelihood: logisticNoise{scale: 0.5},
		Outputs:    1,
		Y:          mat.NewDense(3, 1, []float64{-1, 0, 2.5}),
	})
}

// A likelihood of one's own, and the test that checks it. An outlier ten units
// away pulls with a bounded force, and has no weight.
func ExampleLikelihood() {
	residual, lambda := make([]float64, 1), make([]float64, 1)
	for _, y := range []float64{0.1, 1, 10} {
		logp := logisticNoise{scale: 0.5}.Expand(residual, lambda, nil, []float64{y}, []float64{0})
		fmt.Printf("y = %4v: log p = %7.3f, r = %.3f, Λ = %.3f\n", y, logp, residual[0], lambda[0])
	}
	// Output:
	// y =  0.1: log p =  -0.703, r = 0.199, Λ = 1.980
	// y =    1: log p =  -1.561, r = 1.523, Λ = 0.840
	// y =   10: log p = -19.307, r = 2.000, Λ = 0.000
}
