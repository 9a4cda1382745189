package autoencoder

import (
	"context"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize/network"
)

// Start returns the rows of x with noise in the unknown pixels: normal numbers, scaled to reach from 0 to 1 in each
// row. known has one truth value for each of the D pixels.
func Start(x *mat.Dense, known []bool, seed uint64) *mat.Dense {
	n, d := x.Dims()
	if len(known) != d {
		panic("autoencoder: known has another length than a row")
	}
	out := mat.DenseCopyOf(x)
	e := make([]float64, d)
	for i := range n {
		rng := stream(seed, imputeNoise, uint64(i), 0)
		for j := range e {
			e[j] = rng.NormFloat64()
		}
		lo, hi := floats.Min(e), floats.Max(e)
		for j, v := range e {
			if !known[j] && hi > lo {
				out.Set(i, j, (v-lo)/(hi-lo))
			}
		}
	}
	return out
}

// Impute fills in the unknown pixels of the rows of x by iterated sampling [lae], and returns one N×D sample for
// each drawn network:
//
//  1. Each network starts from noise in the unknown pixels (Start) and reconstructs the rows Rounds times. The
//     known pixels are put back after each round, unless all are known.
//  2. Each sample is replaced by the mean of its reconstructions by all drawn networks. Its known pixels are
//     then reconstructions too.
func (p *Posterior) Impute(ctx context.Context, x *mat.Dense, known []bool, o *DrawOptions) ([]*mat.Dense, error) {
	opt := o.withDefaults(10)
	all := true
	for _, k := range known {
		all = all && k
	}
	start := Start(x, known, opt.Seed)
	nets := make([]*network.Network, opt.Samples)
	theta := make([]float64, len(p.h))
	for s := range nets {
		p.Theta(theta, opt.Seed, s)
		var err error
		if nets[s], err = p.a.net.WithTheta(theta); err != nil {
			return nil, err
		}
	}
	done, total := 0, opt.Samples*(opt.Rounds+opt.Samples)
	report := func() {
		done++
		opt.Progress(done, total)
	}
	samples := make([]*mat.Dense, len(nets))
	for s, net := range nets {
		samples[s] = start
		for range opt.Rounds {
			f, err := net.Forward(ctx, samples[s])
			if err != nil {
				return nil, err
			}
			if !all {
				putBack(f, x, known)
			}
			samples[s] = f
			report()
		}
	}
	n, d := x.Dims()
	for s := range samples {
		mean := mat.NewDense(n, d, nil)
		for _, net := range nets {
			f, err := net.Forward(ctx, samples[s])
			if err != nil {
				return nil, err
			}
			dense.Axpy(mean.RawMatrix().Data, 1/float64(len(nets)), f.RawMatrix().Data)
			report()
		}
		samples[s] = mean
	}
	return samples, nil
}

// putBack copies the known pixels of x to f.
func putBack(f, x *mat.Dense, known []bool) {
	n, _ := x.Dims()
	for i := range n {
		from, to := x.RawRowView(i), f.RawRowView(i)
		for j, k := range known {
			if k {
				to[j] = from[j]
			}
		}
	}
}
