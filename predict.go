package funcgp

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/inference"
	"github.com/funcgp/funcgp/internal/problem"
	"github.com/funcgp/funcgp/linearize"
)

// A Prediction is what a posterior says of one row. Numbers that do not exist are NaN, and lists that do not
// are nil.
type Prediction struct {
	Index int    // number in the file of the data; −1 of rows of one's own
	ID    string // name of the row, "" for none
	Label string // class, labels or target in the data, "" where it is unknown

	// Of classes: the most probable one with its place in Probability, whose order is that of
	// Posterior.Classes; their probabilities, calibrated, with standard deviations; and those of the network
	// alone. Of several labels a row, the probability of each, in the order of Posterior.Labels.
	Class                                      string
	ClassIndex                                 int // −1 for a regression and several labels
	Probability, ProbabilitySD, MAPProbability []float64

	// The outputs: their mean f(x;θ*), C numbers, and their covariance, C×C, which is not calibrated;
	// Covariance.At(i, j) reads it.
	Mean       []float64
	Covariance *mat.SymDense
	// Calibration leads from Mean and Covariance to Probability, which is E g⁻¹(u) over u ~
	// N(Temperature·(Mean + Shift), Scale·Covariance); nil where Probability is a mean over drawn networks.
	Calibration *result.Scales

	// Of a regression, for each target in units: the mean and the standard deviation of a new observation, and
	// that of the function, calibrated.
	ObservationMean, ObservationSD, FunctionSD []float64

	Novelty Novelty
}

// Margin is the largest probability less the next, on which the choice of Class hangs; NaN without one.
func (x *Prediction) Margin() float64 {
	if x.ClassIndex < 0 || len(x.Probability) < 2 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(x.Probability))
	return sorted[len(sorted)-1] - sorted[len(sorted)-2]
}

// A Novelty says how unlike the training rows a row is, whatever the network is sure of.
type Novelty struct {
	Score             float64 // mean surprise of three distances, in nats; about 1 for rows like the training rows
	Rank              float64 // share of the training rows that are less novel without themselves
	Entropy           float64 // of the predictive before calibration, nats; NaN for a regression
	MutualInformation float64 // of prediction and parameters, nats
}

// Predict predicts each of the rows. They must be of this posterior. It returns the error of a context that is
// done.
func (p *Posterior) Predict(ctx context.Context, rows *Rows) ([]Prediction, error) {
	return p.predict(ctx, rows, nil)
}

// predict predicts rows by a function, nil for the posterior's own.
func (p *Posterior) predict(ctx context.Context, rows *Rows, function gp.Latent) ([]Prediction, error) {
	var out []Prediction
	err := p.each(ctx, rows, function, func(lo int, b *linearize.Batch, pred *inference.Predictions) error {
		for i := range b.Len() {
			out = append(out, p.prediction(rows.asked, lo+i, pred, i))
		}
		return nil
	})
	return out, err
}

// each predicts rows in tiles by a function, nil for the posterior's own.
func (p *Posterior) each(ctx context.Context, rows *Rows, function gp.Latent, do func(lo int, b *linearize.Batch, pred *inference.Predictions) error) error {
	end, err := p.begin()
	if err != nil {
		return err
	}
	defer end()
	if err := p.owns(rows); err != nil {
		return err
	}
	return named(p.post.Each(ctx, p.problem, rows.asked.Subset, nil, function, p.link, func(lo int, b *linearize.Batch, _ *mat.Dense, pred *inference.Predictions) error {
		return do(lo, b, pred)
	}))
}

// owns refuses rows that another posterior read.
func (p *Posterior) owns(rows *Rows) error {
	if rows == nil || rows.own != p {
		return errors.New("funcgp: the rows were read for another posterior; read them with this one")
	}
	return nil
}

// prediction is prediction i of a tile, which is row at of those asked for.
func (p *Posterior) prediction(rows *problem.Asked, at int, pred *inference.Predictions, i int) Prediction {
	task, c := p.problem.Task, p.problem.Model.Outputs
	r := p.post.Prediction(task, pred, i)
	out := Prediction{Index: -1, ID: problem.IDOf(rows.Subset, at), ClassIndex: -1,
		Probability: row(pred.Prob, i), ProbabilitySD: row(pred.SD, i), MAPProbability: row(pred.MAPProb, i), Calibration: r.Calibration,
		Mean: row(pred.Mean, i), Covariance: mat.NewSymDense(c, nil),
		ObservationMean: row(pred.Response, i), ObservationSD: row(pred.ObservationSD, i), FunctionSD: row(pred.FunctionSD, i),
		Novelty: Novelty{Score: float64(r.Novelty.Score), Rank: float64(r.Novelty.Rank), Entropy: float64(r.Novelty.Entropy), MutualInformation: float64(r.Novelty.MutualInformation)}}
	for j := range c {
		for k := j; k < c; k++ {
			out.Covariance.SetSym(j, k, pred.Cov.At(i*c+j, k))
		}
	}
	if rows.File == "" {
		out.Index = rows.Rows[at]
	}
	if rows.Set.Labelled() {
		if out.Label = p.problem.LabelName(rows.Subset, at); out.Label == "" {
			out.Label = number(problem.Label(rows.Subset, at))
		}
	}
	if task.Classes != nil {
		out.ClassIndex = pred.Best(i)
		out.Class = task.ClassNames()[out.ClassIndex]
	}
	return out
}

// number is a number in words, "" for NaN.
func number(v float64) string {
	if math.IsNaN(v) {
		return ""
	}
	return fmt.Sprint(v)
}

// row is a copy of row i of m, nil for a nil matrix.
func row(m *mat.Dense, i int) []float64 {
	if m == nil {
		return nil
	}
	return slices.Clone(m.RawRowView(i))
}
