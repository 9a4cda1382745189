package reproduce

import (
	"context"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/internal/logsum"
	"github.com/funcgp/funcgp/linearize/network"
)

// A Drawn is a distribution over parameters.
type Drawn interface {
	// SampleTo writes S draws to the rows of dst, S×P.
	SampleTo(ctx context.Context, dst *mat.Dense, rng *rand.Rand) error
}

// DrawNetworks is the predictive of networks with drawn parameters [glm 9], from one
// run of each draw: the mean of g⁻¹(f(x;θ)), N×C, and log of the mean of p(y|f(x;θ)) of
// each row, nil where rows have no targets.
func DrawNetworks(ctx context.Context, net *network.Network, q Drawn, lik glm.Likelihood, samples int, seed uint64, rows Rows, progress Progress) (response *mat.Dense, logp []float64, err error) {
	const block = 128 // draws that share a pass over the factor of the precision
	rng := rand.New(rand.NewPCG(seed, 0xd4a3))
	p, n := len(net.Theta()), count(rows.X)
	thetas := mat.NewDense(min(block, samples), p, nil)
	sums := make([]logsum.Sum, n)
	for i := range sums {
		sums[i] = logsum.New()
	}
	for s := range samples {
		if s%block == 0 {
			if err := q.SampleTo(ctx, thetas.Slice(0, min(block, samples-s), 0, p).(*mat.Dense), rng); err != nil {
				return nil, nil, err
			}
		}
		at, err := net.WithTheta(thetas.RawRowView(s % block))
		if err != nil {
			return nil, nil, err
		}
		f, err := at.Forward(ctx, rows.X)
		if err != nil {
			return nil, nil, err
		}
		_, c := f.Dims()
		if response == nil {
			response = mat.NewDense(n, c, nil)
		}
		g := make([]float64, c)
		for i := range n {
			lik.MeanTo(g, f.RawRowView(i))
			row := response.RawRowView(i)
			for j, v := range g {
				row[j] += v / float64(samples)
			}
			if rows.Y == nil {
				continue
			}
			sums[i].Add(lik.LogProb(rows.Y.RawRowView(i), f.RawRowView(i)))
		}
		progress(s+1, samples)
	}
	if rows.Y == nil {
		return response, nil, nil
	}
	logp = make([]float64, n)
	for i := range sums {
		logp[i] = sums[i].Value() - math.Log(float64(samples))
	}
	return response, logp, nil
}
