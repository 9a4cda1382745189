package attribution

import (
	"context"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/ntk"
)

func tempMatch(ctx context.Context, net *network.Network, x, y *mat.Dense, lik glm.Likelihood) (float64, error) {
	b, err := net.Linearize(ctx, x)
	if err != nil {
		return 0, err
	}
	kernel := func(factor float64) (ntk.Kernel, error) {
		prior, err := ntk.NewIsotropic(factor*10, nil)
		return ntk.New(prior, net.Theta(), nil), err
	}
	k, _ := kernel(1)
	post, err := gp.Refit(ctx, k, b, y, lik, nil)
	if err != nil {
		return 0, err
	}
	best := 0.0
	for i := range y.RawMatrix().Rows {
		// the most that log p can be, at the mode of a Poisson
		if _, ok := lik.(glm.Poisson); ok {
			best += bestPoisson(y.At(i, 0))
		}
	}
	_, m, err := post.Match(ctx, kernel, y, lik, &gp.MatchOptions{Best: best})
	if err != nil {
		return 0, err
	}
	return 10 * m.Factor, nil
}

func bestPoisson(y float64) float64 {
	l := glm.Poisson{}
	f := -30.0
	if y > 0 {
		f = math.Log(y)
	}
	return l.LogProb([]float64{y}, []float64{f})
}
