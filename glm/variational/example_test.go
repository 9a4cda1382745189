package variational_test

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/variational"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/linearize/train"
	"github.com/funcgp/funcgp/ntk"
)

// classes are points on a line and the side that they are on, with one exception.
func classes() (x, y *mat.Dense) {
	x = mat.NewDense(6, 1, []float64{-2, -1.2, -0.4, 0.3, 1, 2})
	return x, mat.NewDense(6, 1, []float64{0, 0, 1, 0, 1, 1})
}

// The lower bound of the refined posterior is the largest that a Gaussian has. The
// Laplace evidence is no bound, and here it is smaller.
func ExampleRefine() {
	ctx := context.Background()
	x, y := classes()
	net, err := network.Seeded(1, network.Shape{1}, network.Dense{Units: 8}, network.Tanh, network.Dense{Units: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	prior, err := ntk.NewIsotropic(1, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	net, _, err = train.MAP(ctx, net, x, y, glm.Bernoulli{}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	b, err := net.Linearize(ctx, x)
	if err != nil {
		fmt.Println(err)
		return
	}
	targets := gp.NewTargets(y, glm.Bernoulli{})
	q, err := variational.Refine(ctx, b, targets, prior, net.Theta(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	laplace, err := gp.Refit(ctx, ntk.New(prior, net.Theta()), b, targets, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("ELBO %.3f, Laplace evidence %.3f\n", q.ELBO.Value, laplace.EvidenceRefit().Value)
	// Output: ELBO -4.677, Laplace evidence -4.737
}

// One update of VOGGN is Bayesian linear regression [thesis theorem 4.1]: each example
// and draw is a pseudo-example with the Jacobian at the draw. Over functions it is a
// Gaussian process, whose kernel between pseudo-examples of two draws is
// Ĵ_s(x) S̃ Ĵ_s'(x')ᵀ, the neural kernel sum.
func ExampleNatural_Step() {
	ctx := context.Background()
	x, y := classes()
	net, err := network.Seeded(1, network.Shape{1}, network.Dense{Units: 4}, network.Tanh, network.Dense{Units: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	const rate = 0.5
	mu := net.Theta()
	ones, draws := make([]float64, len(mu)), mat.NewDense(2, len(mu), nil)
	for i := range mu {
		ones[i] = 1
		draws.Set(0, i, mu[i]+0.1)
		draws.Set(1, i, mu[i]-0.1)
	}
	prior, err := ntk.NewIsotropic(1, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	q, err := variational.NewPriorGaussian(mu, prior) // N(μ, I)
	if err != nil {
		fmt.Println(err)
		return
	}
	next, err := variational.NewNatural(variational.VOGGN, net, prior, rate).Step(ctx, q, draws, x, gp.NewTargets(y, glm.Bernoulli{}), 1)
	if err != nil {
		fmt.Println(err)
		return
	}

	// S̃⁻¹ = (1−γ)Σ⁻¹ + γΣ₀⁻¹ = I and m̃ = S̃(1−γ)Σ⁻¹μ
	mean := make([]float64, len(mu))
	for i, v := range mu {
		mean[i] = (1 - rate) * v
	}
	regression, err := ntk.NewDiagonal(ones, mean)
	if err != nil {
		fmt.Println(err)
		return
	}
	var batches []*linearize.Batch
	sites := &gp.Sites{F: mat.NewDense(12, 1, nil), Residual: mat.NewDense(12, 1, nil), Lambda: mat.NewDense(12, 1, nil), Root: mat.NewDense(12, 1, nil)}
	for s := range 2 {
		at, err := net.WithTheta(draws.RawRowView(s))
		if err != nil {
			fmt.Println(err)
			return
		}
		b, err := at.Linearize(ctx, x)
		if err != nil {
			fmt.Println(err)
			return
		}
		batches = append(batches, b)
		for i := range 6 {
			// the site of the pseudo-example is γ/S of the likelihood's
			r, lambda := make([]float64, 1), make([]float64, 1)
			glm.Bernoulli{}.Expand(r, lambda, nil, y.RawRowView(i), b.F.RawRowView(i))
			sites.F.Set(6*s+i, 0, b.F.At(i, 0))
			sites.Residual.Set(6*s+i, 0, rate/2*r[0])
			sites.Lambda.Set(6*s+i, 0, rate/2*lambda[0])
			sites.Root.Set(6*s+i, 0, math.Sqrt(rate/2*lambda[0]))
		}
	}
	kernel := ntk.New(regression, mu)
	process, err := gp.Fit(ctx, kernel, linearize.Concat(batches...), sites, &gp.Options{Mean: gp.LinearGaussian})
	if err != nil {
		fmt.Println(err)
		return
	}
	test, err := net.Linearize(ctx, mat.NewDense(1, 1, []float64{0.5}))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, posterior := range []gp.Latent{next.Linearized(mu), process} {
		var f, cov mat.Dense
		if err := posterior.PredictTo(ctx, &f, &cov, test); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("mean %.6f, variance %.6f\n", f.At(0, 0), cov.At(0, 0))
	}
	// Output:
	// mean 0.409408, variance 1.249631
	// mean 0.409408, variance 1.249631
}
