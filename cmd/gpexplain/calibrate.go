package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/linearize"
)

// calibrationFlags say how predictions are calibrated.
type calibrationFlags struct{ method string }

var calibrations = []string{"loo", "heldout", "none"}

// add defines --calibrate.
func (s *calibrationFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&s.method, "calibrate", "loo", "scale the covariance for probabilities and intervals by `HOW`: loo, by leave-one-out predictions of the training rows; heldout, by rows that were not trained on; or none")
}

// check refuses a value that is unknown, or other than that of a saved
// posterior, whose file may be "".
func (s *calibrationFlags) check(c *cobra.Command, posteriorFile string) error {
	switch {
	case !slices.Contains(calibrations, s.method):
		return usagef("--calibrate %q must be loo, heldout or none", s.method)
	case posteriorFile != "" && c.Flags().Changed("calibrate") && s.method != "none":
		return usagef("--calibrate %s cannot be given with --posterior, whose file already says it; leave it out, give none, or fit another posterior", s.method)
	}
	return nil
}

// A calibration is what predictions of rows that the posterior was not fitted to
// tell about it. It belongs to that posterior only.
type calibration struct {
	report.Calibration
	rows     []report.PredictedRow // training rows predicted without themselves, calibrated
	warnings []string
}

// scales are the calibration as package glm applies it; nil applies none.
func (k *calibration) scales() *glm.Calibration {
	if k == nil {
		return nil
	}
	return &glm.Calibration{Scale: float64(k.Scale), NoiseScale: float64(k.NoiseScale)}
}

// moments are predictions of rows: the targets, and the mean, T×C, and
// covariance, T·C×C, of the function.
type moments struct{ y, mean, cov *mat.Dense }

func newMoments(y *mat.Dense, c int) *moments {
	t, _ := y.Dims()
	return &moments{y, mat.NewDense(t, c, nil), mat.NewDense(t*c, c, nil)}
}

// tile is the part of the moments of rows [lo, hi).
func (m *moments) tile(lo, hi int) (mean, cov *mat.Dense) {
	_, c := m.mean.Dims()
	return m.mean.Slice(lo, hi, 0, c).(*mat.Dense), m.cov.Slice(lo*c, hi*c, 0, c).(*mat.Dense)
}

// answer loads the posterior of the problem's file with its calibration, or
// fits and calibrates one. The method "" takes no calibration.
func answer(ctx context.Context, c *console, p *problem, f *posteriorFlags, method string) (*posterior, error) {
	if p.saved != nil {
		return loadPosterior(ctx, c, p, method)
	}
	return fitCalibrated(ctx, c, p, f, fitOptions{}, method)
}

// fitCalibrated computes the posterior that the flags ask for and calibrates
// it. The method "" takes no calibration.
func fitCalibrated(ctx context.Context, c *console, p *problem, f *posteriorFlags, o fitOptions, method string) (*posterior, error) {
	var heldOut *dataset.Subset
	if method == "heldout" {
		var err error
		if heldOut, err = p.heldOut("--calibrate heldout", "calibrate on"); err != nil {
			return nil, err
		}
	}
	q, err := fitPosterior(ctx, c, p, f, o)
	if err != nil || method == "" || method == "none" {
		return q, err
	}
	if err := q.calibrate(ctx, c, p, heldOut); err != nil {
		return nil, err
	}
	return q, c.endPart(ctx, "factorize")
}

// The most training rows that leave-one-out predictions are made of by a
// method; of an exact posterior and a subset, all.
const (
	mostLeftOut   = 5000
	mostLeftOutCG = 200
)

// leftOut returns the positions of the training rows that leave-one-out
// predictions are made of, ascending: all that an exact posterior has, or a
// random sample.
func (q *posterior) leftOut(p *problem) []int {
	n, c := p.examples.train.Len(), p.model.outputs
	if q.how.name == "subset" {
		// Of other rows the posterior knows nothing, but the network does.
		n = len(q.how.inducing)
	}
	most := n
	switch q.how.name {
	case "nystrom":
		most = mostLeftOut
	case "cg":
		most = mostLeftOutCG
	}
	// The covariances, and some copies of them.
	most = min(most, p.within(n, func(n int) int64 { return wholeBytes(4 * 8 * float64(n) * float64(c) * float64(c+1)) }))
	rows := sample(n, most, p.limits.seed)
	if q.how.name == "subset" {
		for i, at := range rows {
			rows[i] = q.how.inducing[at]
		}
		slices.Sort(rows)
	}
	return rows
}

// sample draws most of n positions, or all where there are no more, in ascending
// order.
func sample(n, most int, seed uint64) []int {
	rows := make([]int, n)
	for i := range rows {
		rows[i] = i
	}
	if most >= n {
		return rows
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	rng.Shuffle(n, func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	rows = rows[:most]
	slices.Sort(rows)
	return rows
}

// leaveOneOut returns the predictions of training rows, at these ascending
// positions, by the posterior without the row itself (E17).
func (q *posterior) leaveOneOut(ctx context.Context, c *console, p *problem, rows []int) (*moments, error) {
	m := newMoments(rowsAt(p.examples.y, rows), p.model.outputs)
	atOnce, show := q.rowsAtOnce(p), c.show
	if q.how.name == "exact" && len(rows) == p.examples.train.Len() {
		// It divides them itself, and shows its progress.
		atOnce, show = len(rows), func(string, int, int) {}
	}
	for i := range par.Tiles(len(rows), atOnce) {
		lo, hi := par.Bounds(i, len(rows), atOnce)
		x, err := trainingRows(ctx, q.dual.Data(), rows[lo:hi])
		if err != nil {
			return nil, err
		}
		mean, cov := m.tile(lo, hi)
		if err := q.dual.LeaveOneOutTo(ctx, mean, cov, rows[lo:hi], x); err != nil {
			return nil, err
		}
		show(gp.StageLeaveOneOut, hi, len(rows))
	}
	return m, nil
}

// trainingRows returns the training examples at ascending positions.
func trainingRows(ctx context.Context, data linearize.Source, rows []int) (*linearize.Batch, error) {
	if b, ok := data.(*linearize.Batch); ok && rows[len(rows)-1]-rows[0] == len(rows)-1 {
		return b.Slice(rows[0], rows[0]+len(rows)), nil
	}
	return linearize.Gather(ctx, data, rows)
}

// heldOutMoments returns the predictions of rows that are no training rows.
func (q *posterior) heldOutMoments(ctx context.Context, c *console, p *problem, rows *dataset.Subset) (*moments, error) {
	y, err := p.targets(rows)
	if err != nil {
		return nil, &fullError{err}
	}
	m := newMoments(y, p.model.outputs)
	atOnce := q.rowsAtOnce(p)
	for i := range par.Tiles(rows.Len(), atOnce) {
		lo, hi := par.Bounds(i, rows.Len(), atOnce)
		mean, cov := m.tile(lo, hi)
		x, err := p.linearize(ctx, rows, lo, hi)
		if err == nil {
			err = q.dual.PredictTo(ctx, mean, cov, x)
		}
		if err != nil {
			return nil, &fullError{namesOf(rows, lo, hi).explainError(err)}
		}
		c.show("held-out rows", hi, rows.Len())
	}
	return m, nil
}

// A rowSample is rows with predictions that the posterior was not fitted to.
type rowSample struct {
	*moments
	names rowNames
}

// calibrate finds the scales of the covariance and of the noise (E18), by
// leave-one-out predictions of training rows, or by the rows held out where they
// are not nil, and the novelty of the training rows by leave-one-out.
func (q *posterior) calibrate(ctx context.Context, c *console, p *problem, heldOut *dataset.Subset) error {
	defer c.bar.clear()
	all := p.trainNames()
	rows := q.leftOut(p)
	m, err := q.leaveOneOut(ctx, c, p, rows)
	if err != nil {
		return all.explainError(err)
	}
	loo := rowSample{m, rowNames{all.all, func(i int) string { return all.row(rows[i]) }}}
	k := &calibration{Calibration: report.Calibration{Method: "loo"}}
	on := loo
	if heldOut != nil {
		k.Method = "heldout"
		if m, err = q.heldOutMoments(ctx, c, p, heldOut); err != nil {
			return err
		}
		on = rowSample{m, namesOf(heldOut, 0, heldOut.Len())}
	}
	if err := k.find(ctx, c.show, p.task.likelihood, on); err != nil {
		return on.names.explainError(err)
	}
	if heldOut != nil {
		score, err := k.score(ctx, p.task.likelihood, on)
		if err != nil {
			return on.names.explainError(err)
		}
		k.HeldOut = rowScores(score)
	}
	if err := k.leaveOut(ctx, p, rows, loo.moments); err != nil {
		return loo.names.explainError(err)
	}
	q.calibration, q.novelty = k, rankNovelty(k.rows)
	if heldOut == nil && q.noMode != "" {
		k.warnings = append(k.warnings, q.noMode)
	}
	if heldOut == nil && q.how.name == "nystrom" && q.traceError > looseTrace {
		k.warnings = append(k.warnings, fmt.Sprintf("calibration: %d inducing examples leave out %.2g %% of the prior variance, through which a row acts on its own prediction too: leave-one-out is too hopeful, and the scale may be too small; --calibrate heldout does not depend on it", len(q.how.inducing), 100*q.traceError))
	}
	for _, text := range k.warnings {
		c.warnText(text)
	}
	return nil
}

// looseTrace is the part of the prior variance of the training rows that inducing
// examples may leave out before leave-one-out is too hopeful. On LeNet-5 of all of
// MNIST they leave out .088, and the calibrated NLL is .0036 by leave-one-out
// against .028 of test rows.
const looseTrace = .01

// leaveOut keeps the calibrated leave-one-out predictions of the training rows at
// these positions, with their scores. Those without moments are left out.
func (k *calibration) leaveOut(ctx context.Context, p *problem, rows []int, m *moments) error {
	lik, train := p.task.likelihood, p.examples.train
	calibrated, err := k.score(ctx, lik, rowSample{moments: m})
	if err != nil {
		return err
	}
	network, err := glm.ScoreOfContext(ctx, nil, lik, m.y, m.mean, nil, 0)
	if err != nil {
		return err
	}
	novelty, err := glm.NoveltyOf(ctx, scoringLink(lik, p.model.outputs), lik, m.mean, m.cov, 0)
	if err != nil {
		return err
	}
	k.LOO = rowScores(calibrated)
	for _, i := range calibrated.Surprising(mostSurprising) {
		k.Surprising = append(k.Surprising, report.SurprisingRow{Index: report.Index(train.Rows[rows[i]]), Label: report.Float(label(train, rows[i])), LogDensity: report.Float(calibrated.LogDensity[i])})
	}
	scaled, cov, err := k.scales().Apply(lik, m.cov)
	if err != nil {
		return err
	}
	answers := &predictions{network: m.mean, mean: m.mean, cov: m.cov, likelihood: scaled, scaled: cov, novelty: novelty}
	if p.task.classes != nil {
		answers.prob, answers.mapProb = bothClasses(calibrated.Response), bothClasses(network.Response)
	} else if err := answers.observe(); err != nil {
		return err
	}
	for i, at := range rows {
		if math.IsNaN(calibrated.LogDensity[i]) {
			continue
		}
		r := answers.row(p.task, i, train, at)
		r.LogDensity, r.MAPLogDensity = report.Float(calibrated.LogDensity[i]), report.Float(network.LogDensity[i])
		k.rows = append(k.rows, *r)
	}
	return nil
}

// bothClasses returns probabilities with one column a class. One output p speaks
// for the second class, and 1 − p for the first.
func bothClasses(response *mat.Dense) *mat.Dense {
	t, c := response.Dims()
	if c > 1 {
		return response
	}
	rest := mat.NewDense(t, 1, nil)
	rest.Apply(func(i, _ int, _ float64) float64 { return 1 - response.At(i, 0) }, rest)
	return sideBySide(rest, response)
}

// rankNovelty sets the ranks of the novelty of rows among each other, and returns
// the scores in ascending order.
func rankNovelty(rows []report.PredictedRow) []float64 {
	scores := make([]float64, len(rows))
	for i := range rows {
		scores[i] = float64(rows[i].Novelty.Score)
	}
	scores = glm.SortedScores(scores)
	for i := range rows {
		n := &rows[i].Novelty
		n.Rank = report.Float(glm.Rank(scores, float64(n.Score)))
	}
	return scores
}

// mostSurprising is how many training rows a calibration lists as those that the
// others predict worst.
const mostSurprising = 10

// find sets the scales by some rows, and the scores of their means without a
// covariance.
func (k *calibration) find(ctx context.Context, show func(stage string, done, total int), lik glm.Likelihood, on rowSample) error {
	found, err := glm.Calibrate(ctx, lik, on.y, on.mean, on.cov, &glm.CalibrateOptions{Link: scoringLink(lik, on.mean.RawMatrix().Cols), Progress: func(scales int) { show("calibrate", scales, 0) }})
	if err != nil {
		return err
	}
	for _, w := range found.Warnings {
		k.warnings = append(k.warnings, "calibration: "+strings.TrimPrefix(w.Error(), "glm: "))
	}
	k.Scale, k.NoiseScale, k.Rows, k.NLLSE = report.Float(found.Scale), report.Float(found.NoiseScale), found.Rows, report.Float(found.StdErr)
	network, err := glm.ScoreOfContext(ctx, nil, lik, on.y, on.mean, nil, 0)
	if err != nil {
		return err
	}
	k.Network = *rowScores(network)
	return nil
}

// score scores the calibrated predictions of some rows.
func (k *calibration) score(ctx context.Context, lik glm.Likelihood, on rowSample) (*glm.Score, error) {
	scaled, cov, err := k.scales().Apply(lik, on.cov)
	if err != nil {
		return nil, err
	}
	return glm.ScoreOfContext(ctx, scoringLink(lik, on.mean.RawMatrix().Cols), scaled, on.y, on.mean, cov, 0)
}

// scoringLink is the default link with fewer points a row where it takes points:
// the error of an average over many rows, or of a rank among them, is far below
// that of one row.
func scoringLink(lik glm.Likelihood, c int) glm.Link {
	link := glm.DefaultLink(lik, c)
	if q, ok := link.(glm.QMC); ok {
		q.Tol, q.MaxPoints, q.Workers = 1e-3, 4096, 1
		return fewPoints{q}
	}
	return link
}

// fewPoints takes the points with which scales are compared.
type fewPoints struct{ glm.QMC }

// LogPredictiveTo implements glm.Link.
func (l fewPoints) LogPredictiveTo(dst []float64, lik glm.Likelihood, y, f, cov *mat.Dense) error {
	logp := mat.NewDense(len(dst), 1, dst)
	return l.LogPredictiveScalesTo(context.Background(), logp, []float64{1}, lik, y, f, cov, l.Workers)
}

func rowScores(s *glm.Score) *report.RowScores {
	return &report.RowScores{NLL: report.Float(s.NLL), Accuracy: report.Float(s.Accuracy), ECE: report.Float(s.ECE)}
}

// rank returns the share of training rows whose leave-one-out novelty is smaller;
// NaN where those are not known.
func (q *posterior) rank(novelty report.Float) report.Float {
	return report.Float(glm.Rank(q.novelty, float64(novelty)))
}

// text is the calibration in one line.
func (k *calibration) text() string {
	by, scores := "leave-one-out over", k.LOO
	if k.HeldOut != nil {
		by, scores = "held-out rows,", k.HeldOut
	}
	text := fmt.Sprintf("covariance × %.3g", float64(k.Scale))
	if k.NoiseScale != 1 {
		text += fmt.Sprintf(", noise variance × %.3g", float64(k.NoiseScale))
	}
	return fmt.Sprintf("%s by %s %d rows: NLL %.4f ± %.2g (network alone %.4f)", text, by, k.Rows, float64(scores.NLL), float64(k.NLLSE), float64(k.Network.NLL))
}
