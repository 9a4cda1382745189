package funcgp

import (
	"context"
	"errors"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/glm/score"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/minimize"
	"github.com/funcgp/funcgp/internal/newton"
	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/sparse"
)

// A candidate is the posterior at one prior precision that Prior.Tune tries.
type tuneCandidate struct {
	evidence    gp.Evidence
	f           *mat.Dense                                  // f̂ at the training rows
	rows        []int                                       // positions of those that the posterior is given; nil for all
	leaveOneOut func(ctx context.Context) (*moments, error) // of training rows (E17)
	heldOut     func(ctx context.Context) (*moments, error) // of the held-out rows that Prior.Tune scores
}

// tuneTolerance is the tolerance of the decimal logarithm of the precision: 5 %.
const tuneTolerance = 0.02

// tune chooses the prior precision of f as Prior.Tune says. try computes the posterior at a precision; tune
// calls it for neighbouring precisions one after another.
func (f *fit) tune(ctx context.Context, try func(ctx context.Context, precision float64) (*tuneCandidate, error)) error {
	start, t := f.precision, &result.Tuning{Method: f.asked.Prior.Tune, Start: result.Float(f.precision)}
	shift, noise := map[float64]float64{}, map[float64]float64{}
	one := func(ctx context.Context, x float64) (float64, error) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		f.con.Show("tune", len(t.Trials), 0)
		at := start * math.Pow(10, x)
		c, err := try(ctx, at)
		score := math.Inf(1)
		if err == nil {
			shift[x] = f.shift(c)
			score, noise[x], err = f.score(ctx, c)
		}
		if err != nil && (ctx.Err() != nil || !unstable(err)) {
			return 0, err
		}
		if err != nil {
			f.con.Detail("prior precision %.4g: %v", at, err)
		}
		t.Trials = append(t.Trials, f.trial(at, score))
		return score, nil
	}
	// List the decimal logarithms, relative to the precision start, of the precisions that are tried first: whole
	// decades that reach 1e-4 and 1e4, and two decades either way of start.
	lo := math.Floor(min(-2, -4-math.Log10(start)))
	hi := math.Ceil(max(2, 4-math.Log10(start)))
	found, err := minimize.Search(ctx, minimize.Grid(lo, hi, int(hi-lo)+1), tuneTolerance, func(ctx context.Context, x []float64) ([]float64, error) {
		// From large precisions down: there the problem is best conditioned.
		score := make([]float64, len(x))
		for i := len(x) - 1; i >= 0; i-- {
			var err error
			if score[i], err = one(ctx, x[i]); err != nil {
				return nil, err
			}
		}
		return score, nil
	})
	if e := (*minimize.NoMinimumError)(nil); errors.As(err, &e) {
		return job.FullErrorf("{tune-prior=%s}: no prior precision from %.3g to %.3g gives a finite score; check the targets, or start elsewhere with {prior-precision}", t.Method, start*math.Pow(10, e.Lo), start*math.Pow(10, e.Hi))
	}
	if err != nil {
		return err
	}
	if !f.atTheta {
		t.Shift, t.StartShift = numberPointer(shift[found.X]), numberPointer(shift[0])
	}
	t.Edge = found.Edge != minimize.Inside
	if err := f.choose(t, start*math.Pow(10, found.X)); err != nil || noise[found.X] == 1 {
		return err
	}
	return f.setNoise(noise[found.X], "chosen with the prior precision by "+option.Set("tune-prior", f.asked.Prior.Tune))
}

// choose sets the precision that was found.
func (f *fit) choose(t *result.Tuning, precision float64) error {
	f.tuning = t
	if t.Edge {
		f.con.Warn(job.NewWarning("precision-edge", precision, math.NaN(), "Check the network, or begin elsewhere with {prior-precision}.", "The best prior precision of {tune-prior=%s}, %.3g, is at the end of those searched. The data do not determine it.", t.Method, precision))
	}
	return f.setPrecision(precision)
}

// trial returns a precision with its score. A smaller score is better.
func (f *fit) trial(precision, score float64) result.Trial {
	t := result.Trial{PriorPrecision: result.Float(precision)}
	if f.asked.Prior.Tune == "evidence" {
		t.LogEvidence = numberPointer(-score)
	} else {
		t.NLL = numberPointer(score)
	}
	return t
}

// unstable tells whether an error comes from rounding or overflow, as with a far too small prior precision, so
// that other precisions may still work.
func unstable(err error) bool {
	var (
		notPD     *gp.NotPDError
		notFinite *gp.NotFiniteError
		negative  *gp.NegativeVarianceError
		noRows    *score.RowsError
	)
	return errors.As(err, &notPD) || errors.As(err, &notFinite) || errors.As(err, &negative) || errors.As(err, &noRows) || errors.Is(err, newton.ErrNoObjective)
}

// score is the negative log evidence, or the mean negative log likelihood of rows that are left out or held out, by
// the covariance as it is; less is better. At the best scale of the covariance leave-one-out chooses far too small a
// precision. The test NLL after calibration of 2×50 tanh trained at δ = 3, splits 0 to 2, by the score as it is, at
// the best scale, by the evidence, and at δ = 3: ionosphere .196 .256 .508, .225 .453 1.26, .204 .372 .855, .201 .252
// .488; australian .398 .429 .409, .428 .512 .484, .406 .536 .507, .372 .381 .367.
//
// Only λ = δσ² moves the mode of a Gaussian likelihood. Where no flag says σ², noise is the best factor on it at this
// λ, and the score is that under it; else it is 1.
func (f *fit) score(ctx context.Context, c *tuneCandidate) (nll, noise float64, err error) {
	var m *moments
	lik := f.problem.Task.Likelihood
	gaussian, open := lik.(*glm.Gaussian)
	open = open && !f.problem.Task.NoiseGiven()
	noise = 1
	switch f.asked.Prior.Tune {
	case "evidence":
		if e := c.evidence; open {
			// Σ log p = best − ½n log t − gap/t and the scatter falls by t.
			to := f.problem.TrainTargets()
			gap, n := mostLogLik(to)-e.LogLik, float64(len(to.Y.RawMatrix().Data))
			if to.Weights != nil {
				n *= floats.Sum(to.Weights) / float64(to.Len())
			}
			noise = (2*gap + e.Scatter) / n
			return -(e.Value - n/2*math.Log(noise) + (gap+e.Scatter/2)*(1-1/noise)), noise, nil
		}
		return -c.evidence.Value, noise, nil
	case "loo":
		m, err = c.leaveOneOut(ctx)
	default:
		m, err = c.heldOut(ctx)
	}
	if err != nil {
		return 0, 0, err
	}
	m = m.shifted(f.problem.WeightShift())
	lik = m.scored(lik)
	cov := m.cov
	if open {
		if noise, err = score.NoiseFactor(gaussian, m.y, m.mean, cov, m.weights); err != nil {
			return 0, 0, err
		}
		scaled := &score.Calibration{Scale: noise, NoiseScale: noise}
		if lik, _, cov, err = scaled.Apply(lik, m.mean, cov); err != nil {
			return 0, 0, err
		}
	}
	s, err := score.WeightedScoreOf(ctx, predictive.DefaultLink(f.problem.Task.Likelihood, f.problem.Model.Outputs), lik, m.y, m.mean, cov, m.weights)
	if err != nil {
		return 0, 0, err
	}
	return s.NLL, noise, nil
}

// shift is the root mean square of f̂ − f(x;θ*) over the training outputs that the posterior is given.
func (f *fit) shift(c *tuneCandidate) float64 {
	ours, network := c.f, f.outputs
	if c.rows != nil {
		ours, network = rowsAt(ours, c.rows), rowsAt(network, c.rows)
	}
	var d mat.Dense
	d.Sub(ours, network)
	n, outputs := d.Dims()
	return mat.Norm(&d, 2) / math.Sqrt(float64(n*outputs))
}

// tuneBy does what tune does, with the posterior that do computes at the precision of g, a copy of f. It does
// nothing if no tuning is asked for or the precision is settled.
func (f *fit) tuneBy(ctx context.Context, do func(ctx context.Context, g *fit) (*solution, error)) error {
	if f.asked.Prior.Tune == "" || f.frozen {
		return nil
	}
	return f.tune(ctx, func(ctx context.Context, precision float64) (*tuneCandidate, error) {
		g := *f
		if err := g.setPrecision(precision); err != nil {
			return nil, err
		}
		q, err := do(ctx, &g)
		if err != nil {
			return nil, err
		}
		return &tuneCandidate{
			evidence: q.Evidence,
			rows:     q.given(),
			f:        q.Dual.Sites().F,
			leaveOneOut: func(ctx context.Context) (*moments, error) {
				// A candidate is a refit, whose own means need no warning.
				m, _, err := q.leaveOneOut(ctx, f.con, f.problem, q.leftOut(f.problem))
				return m, err
			},
			heldOut: func(ctx context.Context) (*moments, error) {
				return q.heldOutMoments(ctx, f.con, f.problem, f.heldOut, true)
			},
		}, nil
	})
}

// prepareHeldOut computes the features of the held-out rows.
func (f *fit) prepareHeldOut(ctx context.Context, p *sparse.Projected) (*sparse.Prepared, error) {
	rows := f.heldOut
	f.con.Detail("prior precision chosen on %d rows: %v", rows.Len(), rows)
	prepared, err := p.Prepare(ctx, f.problem.Examples.Source(ctx, f.problem.Model, rows))
	if err != nil {
		return nil, &job.FullError{Err: explainError(rows, err)}
	}
	return prepared, nil
}
