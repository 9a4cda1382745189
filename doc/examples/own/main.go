// Command own fits sin 2x through data with an outlier, by a model, a prior and a likelihood of its own.
package main

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

type fourier []float64 // the model f(x;θ) = Σ_k θ_k sin kx, k = 1, 2, …, len(θ)
type smooth []float64  // the prior of independent θ_k with mean 0 and these variances
type heavy struct{}    // the likelihood of y = f + 0.1 ε, with ε of the logistic distribution

func (m fourier) Dims() (d, c, p int) { return 1, 1, len(m) }
func (m fourier) Linearize(_ context.Context, x *mat.Dense) (*linearize.Batch, error) {
	n, d := x.Dims()
	if s := mat.Sum(x); d != 1 || math.IsNaN(s) || math.IsInf(s, 0) {
		return nil, fmt.Errorf("fourier: the inputs are not finite numbers, one a row")
	}
	f, j := mat.NewDense(n, 1, nil), mat.NewDense(n, len(m), nil)
	j.Apply(func(i, k int, _ float64) float64 { return math.Sin(float64(k+1) * x.At(i, 0)) }, j)
	f.Mul(j, mat.NewDense(len(m), 1, m))
	full := &linearize.Full{J: j, C: 1, Params: []linearize.Span{{Name: "θ", Rows: 1, Cols: len(m)}}}
	return &linearize.Batch{X: x, F: f, P: len(m), Blocks: []linearize.Block{full}}, nil
}
func (smooth) MeanTo(dst []float64)       { clear(dst) }
func (s smooth) VarianceTo(dst []float64) { copy(dst, s) }
func (heavy) MeanTo(dst, f []float64)     { copy(dst, f) }
func (heavy) Expand(residual, lambda, root, y, f []float64) float64 {
	z := math.Abs(y[0]-f[0]) / 0.1
	copy(residual, []float64{10 * math.Copysign(math.Tanh(z/2), y[0]-f[0])}) // of nil, copies nothing
	copy(lambda, []float64{50 / math.Pow(math.Cosh(z/2), 2)})
	copy(root, []float64{math.Sqrt(50) / math.Cosh(z/2)})
	return -z - 2*math.Log1p(math.Exp(-z)) - math.Log(0.1)
}

func main() {
	ctx, model, x, y := context.Background(), make(fourier, 8), mat.NewDense(40, 1, nil), mat.NewDense(40, 1, nil)
	x.Apply(func(i, _ int, _ float64) float64 { return 0.15*float64(i) - 3 }, x)
	y.Apply(func(_, _ int, x float64) float64 { return math.Sin(2 * x) }, x)
	y.Set(25, 0, 8) // an outlier, at x = 0.75
	train, err := model.Linearize(ctx, x)
	check(err)
	post, err := gp.Refit(ctx, ntk.New(smooth{1, 1. / 4, 1. / 9, 1. / 16, 1. / 25, 1. / 36, 1. / 49, 1. / 64}, model), train, gp.NewTargets(y, heavy{}), nil)
	check(err)
	var mean, cov mat.Dense
	check(post.PredictTo(ctx, &mean, &cov, train.Slice(25, 26)))
	fmt.Printf("f(0.75) = %.3f ± %.3f; sin 1.5 = %.3f, y = 8\n", mean.At(0, 0), math.Sqrt(cov.At(0, 0)), math.Sin(1.5))
}
func check(err error) {
	if err != nil {
		panic(err)
	}
}
