package funcgp

import (
	"context"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/linearize"
)

// Tile predicts the rows [lo, hi), which are RowsAtOnce rows except in the last tile, and returns their batch
// too. y has the targets of all rows, or is nil if they are unknown. function is the posterior of another fit,
// which Tile calibrates as q is calibrated and gives no densities, or nil for the posterior of q. Rounding
// depends on the tile, so every prediction is made here. An error of the model or the data names the row.
func (q *solution) Tile(ctx context.Context, p *problem, rows *dataset.Rows, lo, hi int, y *mat.Dense, function gp.Latent, link predictive.Link) (*linearize.Batch, *predictions, error) {
	b, err := q.Rows(ctx, p, rows, lo, hi)
	var pred *predictions
	if err == nil {
		var targets *mat.Dense
		if y != nil && function == nil {
			_, width := y.Dims()
			targets = y.Slice(lo, hi, 0, width).(*mat.Dense)
		}
		pred, err = q.PredictBy(ctx, function, p.Task, b, targets, link)
	}
	return b, pred, explainError(rows.Slice(lo, hi), err)
}

// Prediction returns prediction i in the form of a report on one row.
func (q *solution) Prediction(task *problemTask, o *predictions, i int) result.Prediction {
	r := o.prediction(task, i)
	r.Covariance, r.Novelty.Rank = covarianceOf(o.Cov, i), q.Rank(r.Novelty.Score)
	return r
}

// PredictionOf returns prediction i, which belongs to the row at the position at in rows. It has log densities
// if the targets were given.
func (q *solution) PredictionOf(p *problem, o *predictions, i int, rows *dataset.Rows, at int) *result.Prediction {
	r := o.of(p.Task, i, rows, at)
	r.Covariance, r.Novelty.Rank = covarianceOf(o.Cov, i), q.Rank(r.Novelty.Score)
	r.ID, r.LabelName = idOf(rows, at), p.LabelName(rows, at)
	if o.targets == nil {
		return r
	}
	r.LogDensity, r.MAPLogDensity = result.Float(o.LogDensity[i]), result.Float(p.Task.Likelihood.LogProb(o.targets.RawRowView(i), o.Network.RawRowView(i)))
	if shares := p.Task.SoftLabel(rows, at); shares != nil {
		r.LogDensity, r.MAPLogDensity = result.CrossEntropy(shares, r.Probability), result.CrossEntropy(shares, r.MAPProbability)
	}
	return r
}

// prediction returns prediction i without its covariance. The caller sets the rank of its novelty.
func (o *predictions) prediction(task *problemTask, i int) result.Prediction {
	n := &result.Novelty{Score: result.Undefined(), Rank: result.Undefined(), Entropy: result.Undefined(), MutualInformation: result.Float(o.Unsure.Mutual[i])}
	if hasClasses(task.Likelihood) {
		n.Entropy = result.Float(o.Unsure.Score[i])
	}
	if o.Novelty != nil {
		n.Score = result.Float(o.Novelty[i])
	}
	r := result.Prediction{Class: o.class(task, i), Probability: rowOf(o.Prob, i), ProbabilitySD: rowOf(o.SD, i),
		MAPProbability: rowOf(o.MAPProb, i), Mean: rowOf(o.Mean, i), Calibration: o.scales,
		ObservationMean: rowOf(o.Response, i), ObservationSD: rowOf(o.ObservationSD, i), FunctionSD: rowOf(o.FunctionSD, i), Novelty: n,
		Expected: result.Undefined(), MAPExpected: result.Undefined(), CDF: result.Undefined(), MAPCDF: result.Undefined(), LogDensity: result.Undefined(), MAPLogDensity: result.Undefined()}
	if task.Classes != nil {
		if k := largestClass(o.Network.RawRowView(i)); k != o.Best(i) {
			r.NetworkClass = numberPointer(float64(task.Classes[k]))
		}
	}
	if task.Classes != nil && r.Class.Finite() {
		r.ClassName = task.Name(int(r.Class))
	}
	return r
}

// Best is the number of the class of largest probability of row i.
func (o *predictions) Best(i int) int { return floats.MaxIdx(o.Prob.RawRowView(i)) }

// class is the label of the class of largest probability; undefined for a regression.
func (o *predictions) class(task *problemTask, i int) result.Float {
	if task.Classes == nil {
		return result.Undefined()
	}
	return result.Float(task.Classes[o.Best(i)])
}

// RunnerUp returns the number of the class with the second largest probability in row i, or −1 if there is one
// class alone.
func (o *predictions) RunnerUp(i int) int {
	predicted := o.Best(i)
	second, best := -1, math.Inf(-1)
	for k, v := range o.Prob.RawRowView(i) {
		if k != predicted && v > best {
			second, best = k, v
		}
	}
	return second
}

// Interval is the central 95 % interval of a new observation, nil but for a regression
// of one target.
func (o *predictions) Interval(ctx context.Context, p *problem) ([]float64, error) {
	if hasClasses(p.Task.Likelihood) || p.Task.Likelihood.Targets(p.Model.Outputs) > 1 {
		return nil, nil
	}
	var lo, hi mat.Dense
	if err := predictive.IntervalTo(ctx, &lo, &hi, 0.95, o.Likelihood, o.Tempered, o.Scaled); err != nil {
		return nil, err
	}
	return []float64{lo.At(0, 0), hi.At(0, 0)}, nil
}

// WithMean returns the predictions with another posterior mean, T×C, and the same covariance. The novelty stays
// as in o.
func (o *predictions) WithMean(ctx context.Context, mean *mat.Dense, link predictive.Link) (*predictions, error) {
	other := *o
	other.Mean = mean
	var err error
	if _, other.Tempered, _, err = o.calibration.Apply(o.Likelihood, mean, o.Cov); err != nil {
		return nil, err
	}
	if o.Prob == nil {
		return &other, other.observe(link)
	}
	return &other, other.respond(ctx, nil, link)
}

// byNetwork returns the probabilities of the classes by the network alone: those of the outputs f, 1×C, without
// uncertainty.
func byNetwork(task *problemTask, f *mat.Dense) []result.Float {
	o := &predictions{Network: f}
	o.mapOf(task.Likelihood)
	return rowOf(o.MAPProb, 0)
}
