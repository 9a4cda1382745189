package sparse

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// A Trial is one prior precision that was tried.
type Trial struct {
	Factor float64 // factor on the prior variances
	Score  float64 // lower is better
}

// Tuned is a posterior under the prior variances that predict held-out
// examples best.
type Tuned struct {
	Posterior *Projected
	Factor    float64 // factor on the prior variances
	Score     float64 // score of the held-out examples under Posterior
	Trials    []Trial // in the order tried; the first is Factor 1
}

const (
	tuneReach = 6.0      // decades of the factor that are searched either way
	tuneStep  = 1.0      // decades between the first trials
	tuneStop  = 1.0 / 16 // decades between the last: 15 %
)

// Tune chooses the factor on the prior variances under which the held-out examples
// t have the lowest score, for example their negative log likelihood. It takes no
// pass over the training data: a trial factors A' and predicts t (At,
// PredictPreparedTo). score must not keep the mean and covariance that it is given.
//
// Tune assumes that the score has one minimum in the logarithm of the factor. It
// goes downhill by factors of 10, then halves its step down to 15 %. Factors stay
// between 10⁻⁶ and 10⁶. It fails without held-out examples, where no score is finite,
// and with an error of score.
func (p *Projected) Tune(ctx context.Context, t *Prepared, score func(mean, cov *mat.Dense) (float64, error)) (*Tuned, error) {
	if t.Len() == 0 {
		return nil, fmt.Errorf("sparse: no held-out examples to choose the prior precision on")
	}
	s := &tuner{p: p, t: t, score: score, mean: new(mat.Dense), cov: new(mat.Dense), at: map[float64]float64{}}
	best, err := s.try(ctx, 0)
	if err != nil {
		return nil, err
	}
	x := 0.0
	for step := tuneStep; step >= tuneStop; step /= 2 {
		for moved := true; moved; {
			moved = false
			for _, to := range []float64{x - step, x + step} {
				if math.Abs(to) > tuneReach {
					continue
				}
				v, err := s.try(ctx, to)
				if err != nil {
					return nil, err
				}
				if v < best {
					x, best, moved = to, v, true
					break
				}
			}
		}
	}
	if math.IsNaN(best) || math.IsInf(best, 0) {
		return nil, fmt.Errorf("sparse: the score of the held-out examples is %v under every prior precision tried", best)
	}
	q := p
	if x != 0 {
		if q, err = p.At(ctx, math.Pow(10, x)); err != nil {
			return nil, err
		}
	}
	return &Tuned{Posterior: q, Factor: math.Pow(10, x), Score: best, Trials: s.trials}, nil
}

// A tuner holds the trials of a search.
type tuner struct {
	p         *Projected
	t         *Prepared
	score     func(mean, cov *mat.Dense) (float64, error)
	mean, cov *mat.Dense
	at        map[float64]float64
	trials    []Trial
}

// try returns the score, where smaller is better, with the prior variances multiplied by 10ˣ, and remembers it. A
// NaN becomes +Inf.
func (s *tuner) try(ctx context.Context, x float64) (float64, error) {
	if v, ok := s.at[x]; ok {
		return v, nil
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	q, factor := s.p, math.Pow(10, x)
	if x != 0 {
		var err error
		if q, err = s.p.At(ctx, factor); err != nil {
			return 0, err
		}
	}
	if err := q.PredictPreparedTo(ctx, s.mean, s.cov, s.t); err != nil {
		return 0, err
	}
	v, err := s.score(s.mean, s.cov)
	if err != nil {
		return 0, err
	}
	if math.IsNaN(v) {
		v = math.Inf(1)
	}
	s.at[x] = v
	s.trials = append(s.trials, Trial{Factor: factor, Score: v})
	s.p.o.Show(StageTune, len(s.trials), 0)
	return v, nil
}

// A scaledKernel is a kernel whose prior variances are multiplied by a factor.
type scaledKernel struct {
	ntk.Kernel
	factor float64
}

// scale returns k with its prior variances multiplied by factor.
func scale(k ntk.Kernel, factor float64) ntk.Kernel {
	of, before := unscaled(k)
	return scaledKernel{of, before * factor}
}

// unscaled returns the kernel that scale was given, and the factor.
func unscaled(k ntk.Kernel) (ntk.Kernel, float64) {
	if s, ok := k.(scaledKernel); ok {
		return s.Kernel, s.factor
	}
	return k, 1
}

func (s scaledKernel) BlockTo(dst *mat.Dense, a, b *linearize.Batch) {
	s.Kernel.BlockTo(dst, a, b)
	s.times(dst)
}

func (s scaledKernel) DiagTo(dst *mat.Dense, b *linearize.Batch) {
	s.Kernel.DiagTo(dst, b)
	s.times(dst)
}

// MulTo implements ntk.MulToer.
func (s scaledKernel) MulTo(dst *mat.Dense, a, b *linearize.Batch, v *mat.Dense) {
	kernelProduct{s.Kernel, b, v}.MulTo(dst, a)
	s.times(dst)
}

func (s scaledKernel) times(m *mat.Dense) {
	rows, _ := m.Dims()
	for i := range rows {
		floats.Scale(s.factor, m.RawRowView(i))
	}
}
