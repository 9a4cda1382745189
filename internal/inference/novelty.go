package inference

import (
	"context"
	"errors"
	"math"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm/novelty"
	"github.com/funcgp/funcgp/glm/score"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/problem"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// detect finds what tells how unlike the training rows a row is (E22).
func (q *Posterior) detect(ctx context.Context, c *job.Job, p *problem.Problem) error {
	d, err := novelty.Fit(ctx, q.priorKernel(p), q.Dual, q.noveltyOptions(c, p))
	return q.setDetector(c, p, d, err)
}

// setDetector takes a detector, or warns where it takes more memory than may be taken: the
// posterior answers without it.
func (q *Posterior) setDetector(c *job.Job, p *problem.Problem, d *novelty.Detector, err error) error {
	c.Clear()
	if err == nil {
		q.detector = d
		return nil
	}
	if e := (*gp.MemoryError)(nil); errors.As(err, &e) {
		c.Warn(linearize.NewWarning("skipped", math.NaN(), math.NaN(), "Raise --max-memory.", "The novelty of rows takes %s. It is not known.", problem.Takes(e)))
		return nil
	}
	return p.TrainNames().ExplainError(err)
}

// loadDetector reads what the file has of it; files of older versions have none.
func (q *Posterior) loadDetector(ctx context.Context, c *job.Job, p *problem.Problem) error {
	if !p.Saved.File.Has("novelty.about") || p.Withheld() { // it measures distances to training inputs
		return nil
	}
	d, err := novelty.Load(ctx, p.Saved.File, q.priorKernel(p), q.Dual, q.noveltyOptions(c, p))
	return q.setDetector(c, p, d, err)
}

// priorKernel is the kernel of the posterior's own prior.
func (q *Posterior) priorKernel(p *problem.Problem) *ntk.NTK {
	return ntk.New(q.prior, p.Model.Net.Theta(), nil)
}

// noveltyOptions are those of detectors. They get what an exact posterior leaves of --max-memory, and
// a quarter of it at least.
func (q *Posterior) noveltyOptions(c *job.Job, p *problem.Problem) *novelty.Options {
	o := &novelty.Options{FunctionAlone: p.Model.TakesWhole(), Standardize: !p.Examples.Data.Images(), Seed: p.Limits.Seed, Progress: c.Show}
	if most := p.Limits.Memory; most > 0 {
		o.MaxMemory = max(1, most/4)
		if solverOf(q.How.Name).whole {
			o.MaxMemory = max(o.MaxMemory, most-p.ExactBytes(p.Examples.Train.Len()))
		}
	}
	return o
}

// noveltyOf returns the scores of the rows of b, in nats; nil where they are not known.
func (q *Posterior) noveltyOf(ctx context.Context, b *linearize.Batch) ([]float64, error) {
	if q.detector == nil {
		return nil, nil
	}
	scores := make([]float64, b.Len())
	return scores, q.detector.ScoreTo(ctx, scores, b)
}

// Rank returns the share of training rows that are less novel when they are left out; NaN
// where that is not known.
func (q *Posterior) Rank(novelty result.Float) result.Float {
	if q.detector == nil {
		return result.Undefined()
	}
	return result.Float(score.Rank(q.detector.Training(), float64(novelty)))
}

// scoreLeftOut sets the novelty of training rows, each without itself. That of rows that do not stand
// for all stays undefined.
func (q *Posterior) scoreLeftOut(p *problem.Problem, rows []result.PredictedRow) {
	if q.detector == nil {
		return
	}
	score := map[result.Index]float64{}
	positions, scores := q.detector.LeftOut()
	for i, at := range positions {
		score[result.Index(p.Examples.Train.Rows[at])] = scores[i]
	}
	for i := range rows {
		n := &rows[i].Novelty
		if v, ok := score[rows[i].Index]; ok {
			n.Score = result.Float(v)
			n.Rank = q.Rank(n.Score)
		}
	}
}
