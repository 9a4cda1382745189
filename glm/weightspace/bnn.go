package weightspace

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/logsum"
)

// BNN is the predictive that draws parameters θ and runs the network at each
// draw (E11) [glm 9]. The Links of package glm use the linearization instead. Where
// the posterior is wide, the network at a draw is far from the trained one, and
// the predictive of the Links is better [glm fig. 1].
type BNN struct {
	// Forward returns f(x;θ), T×C, at the rows of x.
	Forward func(ctx context.Context, theta []float64, x *mat.Dense) (*mat.Dense, error)
	Weights Draws  // the posterior that θ is drawn from
	Samples int    // draws; 0 means 100, negative panics
	Seed    uint64 // of the draws

	// Progress, if not nil, is called with StageDraws after each draw, from one
	// goroutine.
	Progress func(stage string, done, total int)
}

// Draws is a distribution over the parameters that can be drawn from. Every Weights is
// one.
type Draws interface {
	// Center returns the mean of the parameters, P numbers. It must not be changed.
	Center() []float64
	// SampleTo writes S draws of the parameters to the rows of dst, S×P, which must be
	// sized.
	SampleTo(ctx context.Context, dst *mat.Dense, rng *rand.Rand) error
}

// A Network is a model N that can be evaluated at other parameters, such as
// *network.Network.
type Network[N any] interface {
	// WithTheta returns the model with the parameters theta, length P.
	WithTheta(theta []float64) (N, error)
	// Forward returns f(x;θ), T×C, at the rows of x.
	Forward(ctx context.Context, x *mat.Dense) (*mat.Dense, error)
}

// NewBNN returns the predictive of a network and a posterior over its
// parameters, with the default number of draws and seed 0.
func NewBNN[N Network[N]](net N, w Draws) *BNN {
	forward := func(ctx context.Context, theta []float64, x *mat.Dense) (*mat.Dense, error) {
		at, err := net.WithTheta(theta)
		if err != nil {
			return nil, err
		}
		return at.Forward(ctx, x)
	}
	return &BNN{Forward: forward, Weights: w}
}

func (b *BNN) samples() int {
	switch {
	case b.Samples < 0:
		panic("weightspace: negative number of samples")
	case b.Samples == 0:
		return 100
	}
	return b.Samples
}

// PredictTo writes the average of g⁻¹(f(x;θ)) over the draws and its standard
// deviation, both T×C, for the rows of x, T×D. A nil destination is skipped,
// an empty one is sized.
func (b *BNN) PredictTo(ctx context.Context, mean, sd *mat.Dense, lik glm.Likelihood, x *mat.Dense) error {
	m, err := b.moments(ctx, lik, x)
	if err != nil || m.t == 0 {
		return err
	}
	dense.SizeTo(mean, m.t, m.c)
	dense.SizeTo(sd, m.t, m.c)
	for i, v := range m.mean {
		dense.SetAt(mean, i/m.c, i%m.c, v)
		dense.SetAt(sd, i/m.c, i%m.c, math.Sqrt(m.scatter[i]/m.n))
	}
	return nil
}

// SplitTo writes the aleatoric and the epistemic part of the predictive
// variance, both T×C; see predictive.Splitter.
func (b *BNN) SplitTo(ctx context.Context, aleatoric, epistemic *mat.Dense, lik glm.Likelihood, x *mat.Dense) error {
	m, err := b.moments(ctx, lik, x)
	if err != nil || m.t == 0 {
		return err
	}
	dense.SizeTo(aleatoric, m.t, m.c)
	dense.SizeTo(epistemic, m.t, m.c)
	for i, v := range m.aleatoric {
		dense.SetAt(aleatoric, i/m.c, i%m.c, v)
		dense.SetAt(epistemic, i/m.c, i%m.c, m.scatter[i]/m.n)
	}
	return nil
}

// drawMoments are running moments of the responses of t examples with c outputs.
// Each slice has t·c entries.
type drawMoments struct {
	t, c                     int
	n                        float64 // draws so far
	mean, scatter, aleatoric []float64
}

func (b *BNN) moments(ctx context.Context, lik glm.Likelihood, x *mat.Dense) (*drawMoments, error) {
	var m *drawMoments
	err := b.draw(ctx, x, func(f *mat.Dense) {
		if m == nil {
			m = newDrawMoments(f.Dims())
		}
		m.add(lik, f)
	})
	return m, err
}

func newDrawMoments(t, c int) *drawMoments {
	return &drawMoments{t: t, c: c, mean: make([]float64, t*c), scatter: make([]float64, t*c), aleatoric: make([]float64, t*c)}
}

func (m *drawMoments) add(lik glm.Likelihood, f *mat.Dense) {
	m.n++
	response, noise := make([]float64, m.c), make([]float64, m.c)
	for t := range m.t {
		lik.MeanTo(response, f.RawRowView(t))
		lik.VarianceTo(noise, f.RawRowView(t))
		for j, v := range response {
			i := t*m.c + j
			// Welford: running mean and Σ(v − mean)²
			d := v - m.mean[i]
			m.mean[i] += d / m.n
			m.scatter[i] += d * (v - m.mean[i])
			m.aleatoric[i] += (noise[j] - m.aleatoric[i]) / m.n
		}
	}
}

// LogPredictiveTo writes log of the average of p(y|f(x;θ)) over the draws, one
// number for each row of x, summed in the log domain; y is T×Targets(C).
func (b *BNN) LogPredictiveTo(ctx context.Context, dst []float64, lik glm.Likelihood, y, x *mat.Dense) error {
	sums := make([]logsum.Sum, len(dst))
	for t := range sums {
		sums[t] = logsum.New()
	}
	err := b.draw(ctx, x, func(f *mat.Dense) {
		if n, c := f.Dims(); n > 0 {
			if len(dst) != n {
				panic("weightspace: dst does not have one element per example")
			}
			if r, k := y.Dims(); r != n || k != lik.Targets(c) {
				panic("weightspace: y is not T×Targets(C)")
			}
		}
		for t := range sums {
			sums[t].Add(lik.LogProb(y.RawRowView(t), f.RawRowView(t)))
		}
	})
	if err != nil {
		return err
	}
	for t := range sums {
		dst[t] = sums[t].Value() - math.Log(float64(b.samples()))
	}
	return nil
}

// draw calls yield with the network's outputs, T×C, at each draw of θ.
func (b *BNN) draw(ctx context.Context, x *mat.Dense, yield func(f *mat.Dense)) error {
	const block = 16 // draws that share a pass over a factor of the precision
	total := b.samples()
	rng := rand.New(rand.NewPCG(b.Seed, 0x9e3779b97f4a7c15))
	thetas := mat.NewDense(min(block, total), len(b.Weights.Center()), nil)
	for s := range total {
		if err := ctx.Err(); err != nil {
			return err
		}
		if s%block == 0 {
			if err := b.Weights.SampleTo(ctx, dense.Slice(thetas, 0, min(block, total-s)), rng); err != nil {
				return err
			}
		}
		f, err := b.Forward(ctx, thetas.RawRowView(s%block), x)
		if err != nil {
			return fmt.Errorf("weightspace: draw %d of θ: %w", s, err)
		}
		yield(f)
		if b.Progress != nil {
			b.Progress(StageDraws, s+1, total)
		}
	}
	return nil
}
