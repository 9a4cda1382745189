package predictive

import (
	"context"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/logsum"
)

// IntervalTo writes the equal-tailed predictive interval lo ≤ y ≤ hi of each target, both T×Targets(C). Each tail
// has a probability of at most (1 − coverage)/2, 0 < coverage < 1. The error is an
// *UnsupportedError where DistributionOf has no distribution for the likelihood, or an error of a Link.
func IntervalTo(ctx context.Context, lo, hi *mat.Dense, coverage float64, lik glm.Likelihood, f, cov *mat.Dense) error {
	if !(coverage > 0 && coverage < 1) {
		panic("predictive: coverage is not between 0 and 1")
	}
	d, ok := glm.DistributionOf(lik)
	if !ok {
		return &UnsupportedError{Link: "exact", Likelihood: lik.Name(), What: "interval"}
	}
	t, c := f.Dims()
	targets := lik.Targets(c)
	dense.SizeTo(lo, t, targets)
	dense.SizeTo(hi, t, targets)
	tail := (1 - coverage) / 2
	return EachRow(ctx, f, cov, func(t int, f, cov []float64) error {
		for j := range targets {
			dense.SetAt(lo, t, j, d.CoupledQuantile(j, tail, f, cov))
			dense.SetAt(hi, t, j, d.CoupledQuantile(j, 1-tail, f, cov))
		}
		return nil
	})
}

// A JointLink predicts T examples together. f is T×C, and cov, T·C×T·C, is their joint covariance, as JointTo of a
// gp.Latent writes it. Exact is a JointLink for Gaussian outputs [thesis 3.16], and MonteCarlo for any likelihood.
type JointLink interface {
	// JointTo writes E g⁻¹(f), T×C, and both parts of the covariance of y: the aleatoric part E Var[y|f], T×C,
	// which is independent between examples, and the epistemic part, the covariance of g⁻¹(f), T·C×T·C. A nil
	// destination is skipped, an empty one is sized.
	JointTo(mean, aleatoric, epistemic *mat.Dense, lik glm.Likelihood, f, cov *mat.Dense) error
	// JointLogPredictive returns log p(y_1 … y_T | x_1 … x_T) in nats. y is T×Targets(C).
	JointLogPredictive(lik glm.Likelihood, y, f, cov *mat.Dense) (float64, error)
}

var (
	_ JointLink = Exact{}
	_ JointLink = MonteCarlo{}
)

// jointly returns the T·C outputs of T examples as one row with the joint covariance.
func jointly(f, cov *mat.Dense) *posterior {
	t, c := f.Dims()
	if r, k := cov.Dims(); r != t*c || k != t*c {
		panic("predictive: covariance is not T·C×T·C")
	}
	return newPosterior(mat.NewDense(1, t*c, dense.Flat(f)), cov)
}

// JointTo implements JointLink for a Gaussian likelihood, where the covariance of g⁻¹(f) is cov. For any other
// likelihood the error is an *UnsupportedError.
func (Exact) JointTo(mean, aleatoric, epistemic *mat.Dense, lik glm.Likelihood, f, cov *mat.Dense) error {
	if _, ok := lik.(*glm.Gaussian); !ok {
		return &UnsupportedError{Link: "exact", Likelihood: lik.Name(), What: "joint prediction"}
	}
	t, c := f.Dims()
	return jointly(f, cov).each(func(_ int, flat, block []float64) error {
		dense.CopyTo(mean, t, c, flat)
		dense.CopyTo(epistemic, t*c, t*c, block)
		dense.SizeTo(aleatoric, t, c)
		for i := range t {
			if aleatoric != nil {
				lik.VarianceTo(aleatoric.RawRowView(i), f.RawRowView(i))
			}
		}
		return nil
	})
}

// JointLogPredictive implements JointLink for a Gaussian likelihood.
func (Exact) JointLogPredictive(lik glm.Likelihood, y, f, cov *mat.Dense) (logp float64, err error) {
	g, ok := lik.(*glm.Gaussian)
	if !ok {
		return 0, &UnsupportedError{Link: "exact", Likelihood: lik.Name(), What: "joint prediction"}
	}
	t, c := f.Dims()
	checkLog(make([]float64, t), lik, y, t, c)
	return logp, jointly(f, cov).each(func(_ int, flat, block []float64) error {
		var err error
		logp, err = g.Repeated(t).LogMarginal(dense.Flat(y), flat, block)
		return err
	})
}

// JointTo implements JointLink by drawing the outputs of all examples together.
func (l MonteCarlo) JointTo(mean, aleatoric, epistemic *mat.Dense, lik glm.Likelihood, f, cov *mat.Dense) error {
	t, c := f.Dims()
	return jointly(f, cov).each(func(_ int, flat, block []float64) error {
		draws, noise := mat.NewDense(l.samples(), t*c, nil), make([]float64, t*c)
		one, s, n := make([]float64, c), 0, float64(l.samples())
		err := l.draw(0, flat, block, func(g []float64) {
			row := draws.RawRowView(s)
			for i := range t {
				lik.MeanTo(row[i*c:(i+1)*c], g[i*c:(i+1)*c])
				lik.VarianceTo(one, g[i*c:(i+1)*c])
				for j, v := range one {
					noise[i*c+j] += v / n
				}
			}
			s++
		})
		if err != nil {
			return err
		}
		dense.CopyTo(aleatoric, t, c, noise)
		average := make([]float64, t*c)
		for i := range l.samples() {
			floats.Add(average, draws.RawRowView(i))
		}
		floats.Scale(1/n, average)
		for i := range l.samples() {
			floats.Sub(draws.RawRowView(i), average)
		}
		dense.CopyTo(mean, t, c, average)
		if dense.SizeTo(epistemic, t*c, t*c); epistemic != nil {
			epistemic.Mul(draws.T(), draws)
			epistemic.Scale(1/n, epistemic)
		}
		return nil
	})
}

// JointLogPredictive implements JointLink by the average of Π_t p(y_t|f_t) over draws, with a sum in the log
// domain. The relative error grows with the number of examples, because fewer draws fit all of them.
func (l MonteCarlo) JointLogPredictive(lik glm.Likelihood, y, f, cov *mat.Dense) (float64, error) {
	t, c := f.Dims()
	checkLog(make([]float64, t), lik, y, t, c)
	sum := logsum.New()
	err := jointly(f, cov).each(func(_ int, flat, block []float64) error {
		return l.draw(0, flat, block, func(g []float64) {
			logp := 0.0
			for i := range t {
				logp += lik.LogProb(y.RawRowView(i), g[i*c:(i+1)*c])
			}
			sum.Add(logp)
		})
	})
	return sum.Value() - math.Log(float64(l.samples())), err
}
