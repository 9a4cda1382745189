package funcgp

import (
	"context"
	"errors"
	"math"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm/novelty"
	"github.com/funcgp/funcgp/glm/score"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// detect builds the detector that scores how unlike the training rows a row is (E22), or reads it from the
// problem's file; files of older versions have none. If the detector takes more memory than allowed, the
// posterior answers without it.
func (q *solution) detect(ctx context.Context, c *job.Job, p *problem, saved bool) error {
	o := &novelty.Options{FunctionAlone: p.Model.TakesWhole(), Standardize: !p.Examples.Data.Images(), Seed: p.Seed, Limits: linearize.Limits{Progress: c.Show}}
	if most := p.Memory; most > 0 {
		// A detector gets what an exact posterior leaves, and a quarter at least.
		o.Memory = max(1, most/4)
		if solverOf(q.How.Name).whole {
			o.Memory = max(o.Memory, most-p.ExactBytes(p.Examples.Train.Len()))
		}
	}
	kernel := ntk.New(q.prior, p.Model.Net.Theta())
	var err error
	switch {
	case !saved:
		q.detector, err = novelty.Fit(ctx, kernel, q.Dual, o)
	case p.Saved.File.Has("novelty.about") && !p.Withheld(): // it measures distances to training inputs
		q.detector, err = novelty.Load(ctx, p.Saved.File, kernel, q.Dual, o)
	}
	c.Clear()
	if e := (*gp.MemoryError)(nil); errors.As(err, &e) {
		q.detector = nil
		c.Warn(job.NewWarning("skipped", math.NaN(), math.NaN(), "Raise {max-memory}.", "The novelty of rows takes %s. It is not known.", takes(e)))
		return nil
	}
	return explainError(p.Examples.Train, err)
}

// Rank returns the share of training rows that are less novel when they are left out; NaN where that is not known.
func (q *solution) Rank(novelty result.Float) result.Float {
	if q.detector == nil {
		return result.Undefined()
	}
	return result.Float(score.Rank(q.detector.Training(), float64(novelty)))
}

// scoreLeftOut sets the novelty of training rows, each scored by the detector without that row. Rows that the
// detector did not leave out keep an undefined novelty.
func (q *solution) scoreLeftOut(p *problem, rows []result.Prediction) {
	if q.detector == nil {
		return
	}
	score := map[result.Index]float64{}
	positions, scores := q.detector.LeftOut()
	for i, at := range positions {
		score[result.Index(p.Examples.Train.Index[at])] = scores[i]
	}
	for i := range rows {
		n := rows[i].Novelty
		if v, ok := score[rows[i].Index]; ok {
			n.Score = result.Float(v)
			n.Rank = q.Rank(n.Score)
		}
	}
}
