package bench

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/sparse"
)

// distance prints the mean Kullback–Leibler divergence of the class probabilities
// of test rows under sparse posteriors from those under the exact posterior of the
// first n training rows, by each link: M = n/10, stratified, at θ*.
func distance(ctx context.Context, p *problem, k *ntk.NTK, n int) error {
	train, err := p.net.Linearize(ctx, p.train.inputs(0, n))
	if err != nil {
		return err
	}
	y := p.train.targets().Slice(0, n, 0, 1).(*mat.Dense)
	sites, err := gp.NewSites(gp.NewTargets(y, lik), train.F)
	if err != nil {
		return err
	}
	z, err := sparse.Select(ctx, sparse.Stratified{Labels: p.train.labels[:n]}, k, train, n/10, nil)
	if err != nil {
		return err
	}
	exact, err := gp.Fit(ctx, k, train, sites, nil)
	if err != nil {
		return err
	}
	subset, err := sparse.FitSubset(ctx, k, train, sites.Rows(z.Rows), z, nil)
	if err != nil {
		return err
	}
	nystrom, err := sparse.Fit(ctx, k, train, sites, z, nil)
	if err != nil {
		return err
	}
	test, err := p.net.Linearize(ctx, p.test.inputs(0, min(500, p.test.n)))
	if err != nil {
		return err
	}
	links := []predictive.Link{predictive.Probit{}, qmc}
	want, err := probabilities(ctx, exact, test, links)
	if err != nil {
		return err
	}
	fmt.Printf("| posterior, N = %d, M = %d | probit | QMC |\n|---|---|---|\n", n, n/10)
	var of [2]float64 // of the subset
	for i, post := range []gp.Latent{subset, nystrom} {
		got, err := probabilities(ctx, post, test, links)
		if err != nil {
			return err
		}
		var kl [2]float64
		for l := range links {
			kl[l] = divergence(want[l], got[l])
		}
		fmt.Printf("| %s |", []string{"subset", "Nyström"}[i])
		for l := range links {
			if i == 0 {
				of = kl
				fmt.Printf(" %.5f |", kl[l])
				continue
			}
			fmt.Printf(" %.5f, %.1f %% closed |", kl[l], 100*(1-kl[l]/of[l]))
		}
		fmt.Println()
	}
	return nil
}

func probabilities(ctx context.Context, post gp.Latent, x *linearize.Batch, links []predictive.Link) ([]*mat.Dense, error) {
	var mean, cov mat.Dense
	if err := post.PredictTo(ctx, &mean, &cov, x); err != nil {
		return nil, err
	}
	var all []*mat.Dense
	for _, l := range links {
		prob := new(mat.Dense)
		if err := l.PredictTo(prob, nil, lik, &mean, &cov); err != nil {
			return nil, err
		}
		all = append(all, prob)
	}
	return all, nil
}

// divergence is the mean over rows of Σ p log p/q.
func divergence(p, q *mat.Dense) float64 {
	n, c := p.Dims()
	sum := 0.0
	for i := range n {
		for j := range c {
			if v := p.At(i, j); v > 0 {
				sum += v * math.Log(v/q.At(i, j))
			}
		}
	}
	return sum / float64(n)
}
