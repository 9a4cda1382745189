package weightspace

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/logsum"
)

// Drawn has the joint predictions of the networks at S draws of the parameters, for T inputs.
type Drawn struct {
	F, Cov *mat.Dense // mean, T×C, and covariance of each input's outputs f(x;θ), T·C×C
	// Mean is the average of g⁻¹(f). Aleatoric and Epistemic are the parts of the predictive variance, E Var[y|f]
	// and Var E[y|f] (see predictive.Splitter). All are T×C.
	Mean, Aleatoric, Epistemic *mat.Dense
	// Entropy is H[E p(y|f)] and Mutual is H[E p(y|f)] − E H[p(y|f)], T numbers each in nats, for a glm.Logistic
	// likelihood; nil for any other.
	Entropy, Mutual []float64
	// CDF is P(y' ≤ y) at the targets y, T numbers, for a likelihood with one target and a glm.DistributionOf; nil
	// for any other, and without targets.
	CDF []float64
	// LogDensity is the logarithm of the average of p(y|f), T numbers in nats; nil without targets.
	LogDensity []float64
}

// Draw draws θ in blocks that share a pass over a factor of the precision, runs the network once at each draw, and
// returns all fields of Drawn, or nil without rows. y is T×Targets(C), or nil where the targets are unknown.
//
// Averages of responses are running means with Welford's sums of squared deviations. Averages of f are computed
// from f less its first draw, so that no digits cancel.
func (b *BNN) Draw(ctx context.Context, lik glm.Likelihood, y, x *mat.Dense) (*Drawn, error) {
	const block = 16
	if b.Samples < 0 {
		panic("weightspace: negative number of samples")
	}
	total := cmp.Or(b.Samples, 100)
	rng := rand.New(rand.NewPCG(b.Seed, 0x9e3779b97f4a7c15))
	thetas := mat.NewDense(min(block, total), len(b.Weights.Center()), nil)
	var d *Drawn
	var first, shifted *mat.Dense
	var sums []logsum.Sum
	var below glm.CoupledQuantities
	var certain []float64 // without covariance
	_, classes := lik.(glm.Logistic)
	for s := range total {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if s%block == 0 {
			if err := b.Weights.SampleTo(ctx, dense.Slice(thetas, 0, min(block, total-s)), rng); err != nil {
				return nil, err
			}
		}
		f, err := b.Forward(ctx, thetas.RawRowView(s%block), x)
		if err != nil {
			return nil, fmt.Errorf("weightspace: draw %d of θ: %w", s, err)
		}
		t, c := f.Dims()
		if t == 0 {
			return nil, nil
		}
		if d == nil {
			d = &Drawn{F: mat.NewDense(t, c, nil), Cov: mat.NewDense(t*c, c, nil), Mean: mat.NewDense(t, c, nil), Aleatoric: mat.NewDense(t, c, nil), Epistemic: mat.NewDense(t, c, nil)}
			certain, first, shifted = make([]float64, c*c), mat.DenseCopyOf(f), mat.NewDense(t, c, nil)
			if classes {
				d.Entropy, d.Mutual = make([]float64, t), make([]float64, t)
			}
			if y != nil {
				if r, k := y.Dims(); r != t || k != lik.Targets(c) {
					panic("weightspace: y is not T×Targets(C)")
				}
				sums = slices.Repeat([]logsum.Sum{logsum.New()}, t)
				var ok bool
				if below, ok = glm.DistributionOf(lik); ok && lik.Targets(c) == 1 {
					d.CDF = make([]float64, t)
				}
			}
		}
		shifted.Sub(f, first)
		d.F.Add(d.F, shifted)
		response, noise := make([]float64, c), make([]float64, c)
		for i := range t {
			at, g := f.RawRowView(i), shifted.RawRowView(i)
			lik.MeanTo(response, at)
			lik.VarianceTo(noise, at)
			mean, scatter, aleatoric := d.Mean.RawRowView(i), d.Epistemic.RawRowView(i), d.Aleatoric.RawRowView(i)
			for a, v := range response {
				off := v - mean[a]
				mean[a] += off / float64(s+1)
				scatter[a] += off * (v - mean[a])
				aleatoric[a] += (noise[a] - aleatoric[a]) / float64(s+1)
				floats.AddScaled(d.Cov.RawRowView(i*c+a), g[a], g)
			}
			if classes {
				d.Mutual[i] += entropyOf(lik, response)
			}
			if sums != nil {
				sums[i].Add(lik.LogProb(y.RawRowView(i), at))
			}
			if d.CDF != nil {
				d.CDF[i] += below.CoupledCDF(0, y.At(i, 0), at, certain)
			}
		}
		if b.Progress != nil {
			b.Progress(StageDraws, s+1, total)
		}
	}
	t, c := d.F.Dims()
	n := float64(total)
	d.F.Scale(1/n, d.F)
	d.Cov.Scale(1/n, d.Cov)
	for i := range t {
		shift := d.F.RawRowView(i)
		for a, v := range shift {
			floats.AddScaled(d.Cov.RawRowView(i*c+a), -v, shift)
			d.Cov.Set(i*c+a, a, math.Max(0, d.Cov.At(i*c+a, a)))
		}
	}
	d.F.Add(d.F, first)
	d.Epistemic.Scale(1/n, d.Epistemic)
	for i := range d.Entropy {
		d.Entropy[i] = entropyOf(lik, d.Mean.RawRowView(i))
		d.Mutual[i] = math.Max(0, d.Entropy[i]-d.Mutual[i]/n)
	}
	floats.Scale(1/n, d.CDF)
	for i := range sums {
		d.LogDensity = append(d.LogDensity, sums[i].Value()-math.Log(n))
	}
	return d, nil
}

// entropyOf returns the entropy in nats for probabilities p. Where outputs are logits by themselves it is the sum
// over outputs.
func entropyOf(lik glm.Likelihood, p []float64) float64 {
	h := 0.0
	add := func(p float64) {
		if p > 0 {
			h -= p * math.Log(p)
		}
	}
	for _, v := range p {
		add(v)
		if !lik.(glm.Logistic).Softmax() {
			add(1 - v)
		}
	}
	return h
}
