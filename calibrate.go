package funcgp

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/glm/score"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// A calibration holds what was learned from predictions of rows that the posterior was not fitted to. It
// belongs to that posterior only.
type calibration struct {
	result.Calibration
	rateKept    bool                // as in score.Calibration
	LeftOutRows []result.Prediction // training rows predicted without themselves, calibrated
	warnings    linearize.Warnings
}

// Scales returns the calibration in the form that package glm applies, or nil to apply none.
func (k *calibration) Scales() *score.Calibration {
	if k == nil {
		return nil
	}
	c := &score.Calibration{Scale: float64(k.Scale), Temperature: float64(k.Temperature), NoiseScale: float64(k.NoiseScale), RateKept: k.rateKept}
	for _, v := range k.Shift {
		c.Shift = append(c.Shift, float64(v))
	}
	return c
}

// RefitScales returns the scales for predictions of training rows by refits without those rows, or nil to apply
// none.
func (k *calibration) RefitScales() *score.Calibration {
	c := k.Scales()
	if c == nil {
		return nil
	}
	if c.Shift = nil; k.Refit != nil { // a refit is at an optimum of the stated loss, whatever the network was trained by
		c.Scale, c.Temperature = float64(k.Refit.Scale), float64(k.Refit.Temperature)
		for _, v := range k.Refit.Shift {
			c.Shift = append(c.Shift, float64(v))
		}
	}
	return c
}

// moments are predictions of rows: the targets, and the mean, T×C, and covariance, T·C×C, of the function. network
// has the outputs of the network, and answer the mean of the answers, where these are the network's; else nil. weights
// are those of the rows, nil for 1 each.
type moments struct {
	y, mean, cov, network, answer *mat.Dense
	weights                       []float64
	lik                           glm.Likelihood // of y, where labels are shares of the classes; else nil
}

// scored returns the likelihood by which the targets are scored. It is lik unless the targets are shares of
// classes.
func (m *moments) scored(lik glm.Likelihood) glm.Likelihood {
	if m.lik != nil {
		return m.lik
	}
	return lik
}

// newScored returns the moments of rows with these targets, or with the shares of the classes where the labels
// are soft.
func newScored(p *problem, rows *dataset.Rows, y *mat.Dense) *moments {
	shares, lik := p.Task.Scored(rows, y, p.Model.Outputs)
	m := newMoments(shares, p.Model.Outputs)
	if shares != y {
		m.lik = lik
	}
	return m
}

func newMoments(y *mat.Dense, c int) *moments {
	t, _ := y.Dims()
	return &moments{y: y, mean: mat.NewDense(t, c, nil), cov: mat.NewDense(t*c, c, nil)}
}

// trainMoments are moments of training rows at these positions.
func trainMoments(p *problem, rows []int) *moments {
	m := newScored(p, p.Examples.Train, p.Examples.Y)
	if len(rows) < p.Examples.Train.Len() || rows[0] != 0 {
		lik := m.lik
		m = newMoments(rowsAt(m.y, rows), p.Model.Outputs)
		m.lik = lik
	}
	m.weights = weightsAt(p, rows)
	return m
}

// weightsAt are the weights of training rows at these positions, nil for 1 each.
func weightsAt(p *problem, rows []int) (weights []float64) {
	if w := p.Examples.Train.Weights; w != nil {
		for _, at := range rows {
			weights = append(weights, w[at])
		}
	}
	return weights
}

// shifted returns the moments with β added to all means; nil adds nothing.
func (m *moments) shifted(beta []float64) *moments {
	if beta == nil {
		return m
	}
	out := *m
	for _, mean := range []**mat.Dense{&out.mean, &out.network, &out.answer} {
		if *mean == nil {
			continue
		}
		*mean = mat.DenseCopyOf(*mean)
		for i := range (*mean).RawMatrix().Rows {
			floats.Add((*mean).RawRowView(i), beta)
		}
	}
	return &out
}

// tile is the part of the moments of rows [lo, hi).
func (m *moments) tile(lo, hi int) (mean, cov *mat.Dense) {
	_, c := m.mean.Dims()
	return m.mean.Slice(lo, hi, 0, c).(*mat.Dense), m.cov.Slice(lo*c, hi*c, 0, c).(*mat.Dense)
}

// mostLeftOutRows is the largest number of training rows for which leave-one-out predictions are made. For an
// exact posterior and a subset they are made for all rows.
const mostLeftOutRows = 5000

// leftOut returns the ascending positions of the training rows for which leave-one-out predictions are made:
// all rows that an exact posterior has, or a random sample.
func (q *solution) leftOut(p *problem) []int {
	n, c, given := p.Examples.Train.Len(), p.Model.Outputs, q.given()
	if given != nil {
		n = len(given) // of other rows the posterior knows nothing, but the network does
	}
	most := cmp.Or(solverOf(q.How.Name).leftOut, n)
	// The covariances, and some copies of them.
	most = min(most, p.Within(n, func(n int) int64 { return wholeBytes(4 * 8 * float64(n) * float64(c) * float64(c+1)) }))
	rows := sampleRows(n, most, p.Seed)
	if given != nil {
		for i, at := range rows {
			rows[i] = given[at]
		}
		slices.Sort(rows)
	}
	return rows
}

// sampleRows draws most of n positions at random, or takes all if n is no larger. The positions ascend.
func sampleRows(n, most int, seed uint64) []int {
	rows := dense.Range(n)
	if most >= n {
		return rows
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	rng.Shuffle(n, func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	rows = rows[:most]
	slices.Sort(rows)
	return rows
}

// leaveOneOut returns the predictions of training rows, at these ascending positions, by the posterior without the row
// itself (E17), and a warning where they are rough.
func (q *solution) leaveOneOut(ctx context.Context, c *job.Job, p *problem, rows []int) (_ *moments, warning, err error) {
	leave, warning, err := q.leaver(ctx, c, p)
	if err != nil {
		return nil, nil, err
	}
	m := trainMoments(p, rows)
	if q.network && hasClasses(p.Task.Likelihood) {
		m.network, m.answer = mat.NewDense(len(rows), p.Model.Outputs, nil), mat.NewDense(len(rows), p.Model.Outputs, nil)
	}
	atOnce, show := q.RowsAtOnce(p), c.Show
	if solverOf(q.How.Name).whole && len(rows) == p.Examples.Train.Len() {
		// It divides them itself, and shows its progress.
		atOnce, show = len(rows), func(string, int, int) {}
	}
	for i := range par.Tiles(len(rows), atOnce) {
		lo, hi := par.Bounds(i, len(rows), atOnce)
		var x *linearize.Batch
		if b, ok := q.Dual.Data().(*linearize.Batch); ok && rows[hi-1]-rows[lo] == hi-1-lo {
			x = b.Slice(rows[lo], rows[lo]+hi-lo)
		} else if x, err = linearize.Gather(ctx, q.Dual.Data(), rows[lo:hi]); err != nil {
			return nil, nil, err
		}
		mean, cov := m.tile(lo, hi)
		if err := leave(ctx, mean, cov, rows[lo:hi], x); err != nil {
			return nil, nil, err
		}
		if m.answer != nil { // f(x;θ*) + f̂_−i(x) − f̂(x) (E25)
			fitted := new(mat.Dense)
			if err := q.Dual.TrainingMeanTo(ctx, fitted, rows[lo:hi], x); err != nil {
				return nil, nil, err
			}
			dense.Slice(m.network, lo, hi).Copy(x.F)
			answer := dense.Slice(m.answer, lo, hi)
			answer.Add(x.F, mean)
			answer.Sub(answer, fitted)
		}
		show(gp.StageLeaveOneOut, hi, len(rows))
	}
	return m, warning, nil
}

// heldOutMoments returns the predictions of rows that are no training rows, with their covariance or without.
func (q *solution) heldOutMoments(ctx context.Context, c *job.Job, p *problem, rows *dataset.Rows, spread bool) (*moments, error) {
	y, err := p.Targets(rows)
	if err != nil {
		return nil, &job.FullError{Err: err}
	}
	m := newScored(p, rows, y)
	m.weights = rows.Weights
	atOnce := q.RowsAtOnce(p)
	for i := range par.Tiles(rows.Len(), atOnce) {
		lo, hi := par.Bounds(i, rows.Len(), atOnce)
		mean, cov := m.tile(lo, hi)
		if !spread {
			cov = nil
		}
		x, err := p.Linearize(ctx, rows, lo, hi)
		if err == nil {
			err = q.Latent().PredictTo(ctx, mean, cov, x)
		}
		if err != nil {
			return nil, &job.FullError{Err: explainError(rows.Slice(lo, hi), err)}
		}
		c.Show("held-out rows", hi, rows.Len())
	}
	return m, nil
}

// A rowSample holds rows that the posterior was not fitted to, with its predictions of them.
type rowSample struct {
	*moments
	rows *dataset.Rows
}

// calibrate finds the scales of the covariance, of the mean and of the noise (E18), by leave-one-out predictions of
// training rows, or by the rows held out where they are not nil. A posterior over the parameters leaves none out.
func (q *solution) calibrate(ctx context.Context, c *job.Job, p *problem, heldOut *dataset.Rows) (err error) {
	defer c.Clear()
	k := &calibration{Calibration: result.Calibration{Method: "loo"}}
	var rows []int
	var rough error
	var loo, on rowSample
	if q.Dual != nil {
		rows = q.leftOut(p)
		if loo.moments, rough, err = q.leaveOneOut(ctx, c, p, rows); err != nil {
			return explainError(p.Examples.Train, err)
		}
		loo.rows = p.Examples.Train.At(rows)
		on = loo
	}
	if heldOut != nil {
		k.Method = "heldout"
		if on.moments, err = q.heldOutMoments(ctx, c, p, heldOut, true); err != nil {
			return err
		}
		if q.network {
			on.network, on.answer = on.mean, on.mean
		}
		on.rows = heldOut
	}
	// Set the scales by these rows, and the scores of their means without a covariance.
	lik, known := p.Task.Likelihood, p.WeightShift()
	at := on.shifted(known)
	found, err := score.Calibrate(ctx, on.scored(lik), on.y, at.mean, on.cov, &score.CalibrateOptions{Weights: on.weights, Link: predictive.ScoringLink(lik, on.mean.RawMatrix().Cols), Progress: func(scales int) { c.Show("calibrate", scales, 0) }})
	if err != nil {
		return explainError(on.rows, err)
	}
	refit, moved := *found, false
	if s := q.settled; heldOut == nil && q.network && s != nil && s.projection != 0 {
		// The rows were predicted by the refit, and the answers are the network's.
		network := found.ForNetwork(lik, s.projection, float64(s.match.Remainder))
		found, moved = network, network != found
	}
	if moved || known != nil {
		k.Refit = &result.Scales{Scale: result.Float(refit.Scale), Temperature: result.Float(refit.Temperature), NoiseScale: result.Float(refit.NoiseScale), Shift: result.Floats(known)}
	}
	if answer := at.answer; answer != nil {
		if found, err = found.WithShift(ctx, predictive.ScoringLink(lik, answer.RawMatrix().Cols), on.scored(lik), on.y, at.network, answer, on.cov, on.weights); err != nil {
			return explainError(on.rows, err)
		}
		if moved {
			if found, err = found.JudgeNetwork(ctx, predictive.ScoringLink(lik, answer.RawMatrix().Cols), on.scored(lik), on.y, at.network, answer, on.cov, on.weights, float64(q.settled.match.Remainder)); err != nil {
				return explainError(on.rows, err)
			}
		}
	}
	if known != nil { // the shift is what is added to the outputs as they are
		to := *found
		to.Shift = slices.Clone(known)
		if found.Shift != nil {
			floats.Add(to.Shift, found.Shift)
		}
		found = &to
	}
	k.warnings = append(k.warnings, found.Warnings...)
	k.Scale, k.Temperature, k.NoiseScale = result.Float(found.Scale), result.Float(found.Temperature), result.Float(found.NoiseScale)
	k.Shift, k.rateKept = result.Floats(found.Shift), found.RateKept
	k.Rows, k.NLLSE = found.Rows, result.Float(found.StdErr)
	network, err := score.WeightedScoreOf(ctx, nil, on.scored(lik), on.y, on.mean, nil, on.weights)
	if err != nil {
		return explainError(on.rows, err)
	}
	k.Network = *rowScores(network)
	if heldOut != nil {
		score, err := scoreUnder(ctx, k.Scales(), lik, on.moments)
		if err != nil {
			return explainError(on.rows, err)
		}
		k.HeldOut = rowScores(score)
	}
	if q.Calibration = k; q.Dual != nil {
		if err := k.leaveOut(ctx, p, rows, loo.moments); err != nil {
			return explainError(loo.rows, err)
		}
		q.scoreLeftOut(p, k.LeftOutRows)
	}
	if heldOut == nil && rough != nil {
		k.warnings = append(k.warnings, rough)
	}
	c.Warn(k.warnings...)
	return nil
}

// leaveOut keeps the calibrated leave-one-out predictions of the training rows at these positions, with their scores.
// Those without moments are left out.
func (k *calibration) leaveOut(ctx context.Context, p *problem, rows []int, m *moments) error {
	lik, train := p.Task.Likelihood, p.Examples.Train
	scales := k.RefitScales()
	calibrated, err := scoreUnder(ctx, scales, lik, m)
	if err != nil {
		return err
	}
	network, err := score.WeightedScoreOf(ctx, nil, m.scored(lik), m.y, m.mean, nil, m.weights)
	if err != nil {
		return err
	}
	k.LOO = rowScores(calibrated)
	for _, i := range calibrated.Surprising(mostSurprising) {
		k.Surprising = append(k.Surprising, result.SurprisingRow{Index: result.Index(train.Index[rows[i]]), Label: result.Float(label(train, rows[i])), LogDensity: result.Float(calibrated.LogDensity[i])})
	}
	scaled, mean, cov, err := scales.Apply(lik, m.mean, m.cov)
	if err != nil {
		return err
	}
	unknown := slices.Repeat([]float64{math.NaN()}, m.mean.RawMatrix().Rows) // no report shows these scores of training rows
	unsure := &score.Novelty{Score: unknown, Mutual: unknown}
	answers := &predictions{Network: m.mean, Mean: m.mean, Cov: m.cov, Likelihood: scaled, Tempered: mean, Scaled: cov, Unsure: unsure}
	if hasClasses(lik) {
		answers.Prob, answers.MAPProb = bothClasses(calibrated.Response), bothClasses(network.Response)
	} else if err := answers.observe(predictive.Exact{}); err != nil {
		return err
	}
	for i, at := range rows {
		if math.IsNaN(calibrated.LogDensity[i]) {
			continue
		}
		r := answers.of(p.Task, i, train, at)
		r.LogDensity, r.MAPLogDensity = result.Float(calibrated.LogDensity[i]), result.Float(network.LogDensity[i])
		k.LeftOutRows = append(k.LeftOutRows, *r)
	}
	return nil
}

// bothClasses returns probabilities with one column a class. One output p speaks for the second class, and 1 − p for
// the first.
func bothClasses(response *mat.Dense) *mat.Dense {
	t, c := response.Dims()
	if c > 1 {
		return response
	}
	rest := mat.NewDense(t, 1, nil)
	rest.Apply(func(i, _ int, _ float64) float64 { return 1 - response.At(i, 0) }, rest)
	return sideBySide(rest, response)
}

// mostSurprising is how many training rows a calibration lists as those that the others predict worst.
const mostSurprising = 10

// scoreUnder scores predictions of rows under a calibration.
func scoreUnder(ctx context.Context, k *score.Calibration, lik glm.Likelihood, on *moments) (*score.Score, error) {
	scaled, mean, cov, err := k.Apply(on.scored(lik), on.mean, on.cov)
	if err != nil {
		return nil, err
	}
	return score.WeightedScoreOf(ctx, predictive.ScoringLink(lik, on.mean.RawMatrix().Cols), scaled, on.y, mean, cov, on.weights)
}

func rowScores(s *score.Score) *result.RowScores {
	return &result.RowScores{NLL: result.Float(s.NLL), Accuracy: result.Float(s.Accuracy), ECE: result.Float(s.ECE)}
}

const (
	// looseTrace is the part of the prior variance of the training rows that inducing examples may leave out before
	// leave-one-out takes its means from kept rows. On LeNet-5 of all of MNIST 200 of them leave out .088, and the
	// calibrated NLL would be .0036 by leave-one-out against .028 of test rows.
	looseTrace = .01
	// mostKept is the most rows that are kept for it. On LeNet-5 of all of MNIST they have .989 of tr Λ, and with them
	// leave-one-out over 5,000 rows takes a sixth of the time of the pass through 200 inducing examples.
	mostKept = 7000
	// fewKept is the part of tr Λ that kept rows must have for their means to count as means by all rows.
	fewKept = .9
)

// A leaver predicts training rows without themselves.
type leaver func(ctx context.Context, mean, cov *mat.Dense, rows []int, x *linearize.Batch) error

// leaver returns the function that predicts training rows without themselves. With few inducing examples at θ*
// its means come from kept rows (E16); otherwise the posterior computes them alone. warning says where the
// means are only rough.
func (q *solution) leaver(ctx context.Context, c *job.Job, p *problem) (l leaver, warning, err error) {
	if q.How.Name != "nystrom" || q.Dual.Refitted() || q.How.mean != gp.Network || q.traceError <= looseTrace { // that of kept rows is not known
		return q.Dual.LeaveOneOutTo, nil, nil
	}
	kernel := ntk.New(q.prior, p.Model.Net.Theta())
	// The Jacobian of combined outputs takes no more memory than the Jacobian of all.
	most := p.Within(mostKept, func(n int) int64 {
		return wholeBytes(float64(gp.Bytes(n, 1)) + float64(p.Model.Net.BatchBytes(n)))
	})
	rows, err := gp.Keep(ctx, kernel, q.Dual.Data(), q.Dual.Sites(), &gp.KeepOptions{Most: most, Progress: c.Show})
	if err != nil {
		return nil, nil, err
	}
	if rows.Len() == 0 {
		return q.Dual.LeaveOneOutTo, nil, nil // every row is saturated, and none moves another
	}
	kept, err := gp.FitKept(ctx, kernel, q.Dual.Data(), q.Dual.Sites(), rows, &gp.Options{Limits: p.Bounds(c)})
	if err != nil {
		return nil, nil, err
	}
	part := rows.Trace / rows.Total
	c.Detail("leave-one-out means by %d rows of the training data, with %.4g %% of tr Λ", rows.Len(), 100*part)
	if part < fewKept {
		elements := "examples"
		if q.How.takesRows() {
			elements = "rows"
		}
		warning = job.NewWarning("leave-one-out-rough", part, fewKept, "Give more {inducing}, or {calibrate=heldout}.",
			"%d inducing %s leave out %.2g %% of the prior variance, and the %d rows that leave-one-out takes its means from have only %.2g %% of the information. The calibrated scale may be too large.", len(q.How.inducing), elements, 100*q.traceError, rows.Len(), 100*part)
	}
	return func(ctx context.Context, mean, cov *mat.Dense, at []int, x *linearize.Batch) error {
		return q.induced.LeaveOneOutBy(ctx, kept, mean, cov, at, x)
	}, warning, nil
}
