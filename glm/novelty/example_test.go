package novelty_test

import (
	"context"
	"fmt"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/novelty"
	"github.com/funcgp/funcgp/glm/score"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/ntk"
)

// A point far from all training points is novel however sure its class is.
func Example() {
	ctx := context.Background()
	rng := rand.New(rand.NewPCG(1, 2))
	x, y := mat.NewDense(200, 2, nil), mat.NewDense(200, 1, nil)
	for i := range 200 {
		x.SetRow(i, []float64{rng.NormFloat64(), rng.NormFloat64()})
		if x.At(i, 0) > 0 {
			y.Set(i, 0, 1)
		}
	}
	net, err := network.Sequential(network.Shape{2}, network.Dense{Units: 10}, network.Tanh, network.Dense{Units: 1})
	if err != nil {
		panic(err)
	}
	train, err := net.Linearize(ctx, x)
	if err != nil {
		panic(err)
	}
	prior, err := ntk.NewIsotropic(1, nil)
	if err != nil {
		panic(err)
	}
	k := ntk.New(prior, net.Theta())
	post, err := gp.Refit(ctx, k, train, gp.NewTargets(y, glm.Bernoulli{}), nil)
	if err != nil {
		panic(err)
	}
	d, err := novelty.Fit(ctx, k, post, nil)
	if err != nil {
		panic(err)
	}
	asked, err := net.Linearize(ctx, mat.NewDense(2, 2, []float64{1, .5, 9, -4}))
	if err != nil {
		panic(err)
	}
	novel := make([]float64, 2)
	if err := d.ScoreTo(ctx, novel, asked); err != nil {
		panic(err)
	}
	for i, name := range []string{"near", "far"} {
		fmt.Printf("%s: more novel than %.0f %% of the training examples: %v\n", name, 100*score.Rank(d.Training(), novel[i]), novel[i] > d.Training()[199])
	}
	// Output:
	// near: more novel than 26 % of the training examples: false
	// far: more novel than 100 % of the training examples: true
}
