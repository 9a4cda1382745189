package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/spf13/cobra"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/linearize"
)

type predictVerb struct {
	common    commonFlags
	posterior posteriorFlags

	calibration calibrationFlags

	index     *int // nil where not given
	testIndex string
	link      string
	samples   int
}

var links = []string{"exact", "probit", "mc", "bridge"}

func predictCommand(con *console) *cobra.Command {
	s := &predictVerb{}
	v := &verb{
		name:  "predict",
		short: "Predict test rows with calibrated uncertainty",
		long: `Predict writes one JSON object a line for every test row asked for, in order,
and a summary: as text on standard error, or with --json as the last line.`,
		example: `  gpexplain predict --index 24
  gpexplain predict --json > predictions.jsonl`,
		flags: s.add, check: s.check, run: s.run,
		complete: methodValues(map[string][]string{"link": links, "calibrate": calibrations}),
	}
	return v.command(con, &s.common)
}

func (s *predictVerb) add(c *cobra.Command) {
	f := c.Flags()
	optionalInt(c, &s.index, "index", "predict only test row `I`, counted from 0 in the original file")
	f.StringVar(&s.testIndex, "test-index", "", "predict the test rows listed in `FILE`, one row number a line, in that order")
	s.posterior.add(c)
	s.posterior.addRefit(c, false, "move to the optimum of the linearized model first; otherwise the mean is the network's output")
	s.posterior.addFile(c)
	s.calibration.add(c)
	f.StringVar(&s.link, "link", "", "`METHOD` from outputs to probabilities: exact, probit, mc or bridge (default exact for one output, otherwise probit)")
	f.IntVar(&s.samples, "samples", 1000, "`S` draws of --link mc")
}

func (s *predictVerb) check(c *cobra.Command) error {
	switch {
	case s.index != nil && s.testIndex != "":
		return usagef("--index and --test-index exclude each other")
	case s.index != nil && *s.index < 0:
		return usagef("--index %d must be 0 or more", *s.index)
	case s.samples < 1:
		return usagef("--samples %d must be at least 1", s.samples)
	case s.link != "" && !slices.Contains(links, s.link):
		return usagef("--link %q must be exact, probit, mc or bridge", s.link)
	case c.Flags().Changed("samples") && s.link != "mc":
		return usagef("--samples is for --link mc")
	}
	if name := s.common.task.likelihood; name != "" {
		// Where it matters for the link that there is more than one output, the
		// likelihood is for more than one.
		if lik := likelihoodNamed(name); !linkSuits(s.link, lik, 2) {
			return usagef("--link %s is not for --likelihood %s", s.link, name)
		}
	}
	if err := s.posterior.check(c); err != nil {
		return err
	}
	return s.calibration.check(c, s.posterior.file)
}

// linkSuits tells whether a link can be computed for a likelihood of c
// outputs.
func linkSuits(link string, lik glm.Likelihood, c int) (ok bool) {
	switch link {
	case "exact":
		_, ok = lik.(glm.Marginal)
		return ok || c == 1
	case "probit", "bridge":
		_, ok = lik.(glm.Logistic)
		return ok
	}
	return true
}

// chooseLink returns the link for the likelihood and the model.
func (s *predictVerb) chooseLink(p *problem) (glm.Link, error) {
	lik := p.task.likelihood
	if !linkSuits(s.link, lik, p.model.outputs) {
		return nil, fmt.Errorf("--link %s is not for the %s likelihood of %s; leave it out or use mc", s.link, lik.Name(), p.model.name)
	}
	switch s.link {
	case "exact":
		return glm.Exact{}, nil
	case "probit":
		return glm.Probit{}, nil
	case "bridge":
		return glm.Bridge{}, nil
	case "mc":
		return glm.MonteCarlo{Samples: s.samples, Seed: p.limits.seed}, nil
	}
	return glm.DefaultLink(lik, p.model.outputs), nil
}

func (s *predictVerb) run(ctx context.Context, c *console) error {
	p, err := openProblem(ctx, c, &s.common, s.posterior.file)
	if err != nil {
		return err
	}
	link, err := s.chooseLink(p)
	if err != nil {
		return err
	}
	rows, err := s.rows(ctx, p)
	if err != nil {
		return err
	}
	y, err := p.targets(rows)
	if err != nil {
		return err
	}
	q, err := answer(ctx, c, p, &s.posterior, s.calibration.method)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(c.out)
	total := newScore(rows.Len(), len(p.task.classes))
	lines := lineEncoder(out)
	atOnce := q.rowsAtOnce(p)
	for i := range par.Tiles(rows.Len(), atOnce) {
		lo, hi := par.Bounds(i, rows.Len(), atOnce)
		if err := predictTile(ctx, p, q, link, rows, y, lo, hi, total, lines); err != nil {
			return err
		}
		c.show("predict", hi, rows.Len())
	}
	c.bar.clear()
	sum := total.summary(rows, q.report(p, c.warnings))
	if err := c.endPart(ctx, "predict"); err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	sum.Timings = c.timings()
	if c.json {
		return lineEncoder(c.out).Encode(sum)
	}
	sum.text(c, rows.Len())
	return nil
}

// rows are the test rows that the flags ask for.
func (s *predictVerb) rows(ctx context.Context, p *problem) (*dataset.Subset, error) {
	var o dataset.SelectOptions
	switch {
	case s.index != nil:
		o = dataset.SelectOptions{Rows: []int{*s.index}, From: "--index"}
	case s.testIndex != "":
		rows, err := dataset.ReadRows(ctx, s.testIndex)
		if err != nil {
			return nil, err
		}
		o = dataset.SelectOptions{Rows: rows, From: s.testIndex}
	}
	return p.examples.test(o)
}

// lineEncoder writes JSON as it is, one object a line.
func lineEncoder(w io.Writer) *json.Encoder {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc
}

// A prediction is one line of output.
type prediction struct {
	Index          int              `json:"index"`
	Label          report.Float     `json:"label"`
	Class          report.Float     `json:"class"`
	Probability    []report.Float   `json:"probability"`
	MAPProbability []report.Float   `json:"map_probability"`
	Mean           []report.Float   `json:"mean"`
	Covariance     [][]report.Float `json:"covariance"` // not scaled by the calibration

	// Of a regression: the expected value and the standard deviation of a new
	// observation, and the standard deviation of the function, calibrated.
	ObservationMean []report.Float `json:"observation_mean,omitempty"`
	ObservationSD   []report.Float `json:"observation_sd,omitempty"`
	FunctionSD      []report.Float `json:"function_sd,omitempty"`

	Novelty *report.Novelty `json:"novelty"`
}

// predictTile predicts the rows [lo, hi), whose targets are those rows of y,
// writes a line for each, and adds them to the score.
func predictTile(ctx context.Context, p *problem, q *posterior, link glm.Link, rows *dataset.Subset, y *mat.Dense, lo, hi int, total *score, lines *json.Encoder) error {
	names, lik := namesOf(rows, lo, hi), p.task.likelihood
	b, err := p.linearize(ctx, rows, lo, hi)
	if err != nil {
		return names.explainError(err)
	}
	pred, err := q.predict(ctx, p.task, b, link)
	if err != nil {
		return names.explainError(err)
	}
	targets := y.Slice(lo, hi, 0, 1).(*mat.Dense)
	if err := link.LogPredictiveTo(total.logp[lo:hi], pred.likelihood, targets, pred.mean, pred.scaled); err != nil {
		return names.explainError(err)
	}
	for i := range hi - lo {
		if err := ctx.Err(); err != nil {
			return err
		}
		f := b.F.RawRowView(i)
		total.mapLogp[lo+i] = lik.LogProb(targets.RawRowView(i), f)
		if pred.prob != nil {
			copy(total.prob.RawRowView(lo+i), pred.prob.RawRowView(i))
			if largestClass(f) == rows.Class[lo+i] {
				total.right++
			}
		}
		line := prediction{Index: rows.Rows[lo+i], Label: report.Float(label(rows, lo+i)), Class: p.task.class(f), Probability: rowOf(pred.prob, i),
			MAPProbability: rowOf(pred.mapProb, i), Mean: rowOf(pred.mean, i), Covariance: covarianceOf(pred.cov, i),
			ObservationMean: rowOf(pred.response, i), ObservationSD: rowOf(pred.observationSD, i), FunctionSD: rowOf(pred.functionSD, i), Novelty: q.reportNovelty(pred.novelty, i)}
		if err := lines.Encode(line); err != nil {
			return err
		}
	}
	return nil
}

// predictions are the answers for a batch of T rows.
type predictions struct {
	mean, cov         *mat.Dense     // of the outputs: T×C, T·C×C
	likelihood        glm.Likelihood // with calibrated noise
	scaled            *mat.Dense     // calibrated covariance, T·C×C
	prob, sd, mapProb *mat.Dense     // probabilities, their standard deviations, and those of the network itself: T×classes, nil for a regression
	novelty           *glm.Novelty   // with the covariance as it is

	// Of a regression, T×C: the mean and the standard deviation of a new
	// observation, and the standard deviation of the function.
	response, observationSD, functionSD *mat.Dense
}

// predict evaluates posterior and link at the rows of b.
func (q *posterior) predict(ctx context.Context, task *task, b *linearize.Batch, link glm.Link) (*predictions, error) {
	t, c := b.Len(), b.Outputs()
	out := &predictions{mean: mat.NewDense(t, c, nil), cov: mat.NewDense(t*c, c, nil)}
	if err := q.dual.PredictTo(ctx, out.mean, out.cov, b); err != nil {
		return nil, err
	}
	lik := task.likelihood
	var err error
	if out.likelihood, out.scaled, err = q.calibration.scales().Apply(lik, out.cov); err != nil {
		return nil, err
	}
	if out.novelty, err = glm.NoveltyOf(ctx, nil, lik, out.mean, out.cov, 0); err != nil {
		return nil, err
	}
	if task.classes == nil {
		return out, out.observe()
	}
	if err := out.respond(out.likelihood, link); err != nil {
		return nil, err
	}
	out.mapProb = mat.NewDense(t, c, nil)
	for i := range t {
		lik.MeanTo(out.mapProb.RawRowView(i), b.F.RawRowView(i))
	}
	if c > 1 {
		return out, nil
	}
	// One output p speaks for the second class, and 1 − p for the first.
	rest := mat.NewDense(t, 1, nil)
	for i := range t {
		lik.MeanTo(rest.RawRowView(i), []float64{-b.F.At(i, 0)})
	}
	out.mapProb = sideBySide(rest, out.mapProb)
	return out, nil
}

// respond fills in the probabilities and their standard deviations.
func (o *predictions) respond(lik glm.Likelihood, link glm.Link) error {
	o.prob, o.sd = new(mat.Dense), new(mat.Dense)
	if err := link.PredictTo(o.prob, o.sd, lik, o.mean, o.scaled); err != nil {
		return err
	}
	t, c := o.prob.Dims()
	if c > 1 {
		return nil
	}
	rest := mat.NewDense(t, 1, nil)
	switch link.(type) {
	case glm.Exact, glm.Probit:
		// E σ(−f), which keeps its digits where p is 1 to rounding.
		var minus mat.Dense
		minus.Scale(-1, o.mean)
		if err := link.PredictTo(rest, nil, lik, &minus, o.scaled); err != nil {
			return err
		}
	default:
		for i := range t {
			rest.Set(i, 0, 1-o.prob.At(i, 0))
		}
	}
	o.prob, o.sd = sideBySide(rest, o.prob), sideBySide(o.sd, o.sd)
	return nil
}

// observe fills in what a regression says of a new observation.
func (o *predictions) observe() error {
	t, c := o.mean.Dims()
	link := glm.Exact{}
	aleatoric, epistemic := new(mat.Dense), new(mat.Dense)
	if err := link.SplitTo(aleatoric, epistemic, o.likelihood, o.mean, o.scaled); err != nil {
		return err
	}
	o.response = new(mat.Dense)
	if err := link.PredictTo(o.response, nil, o.likelihood, o.mean, o.scaled); err != nil {
		return err
	}
	o.observationSD, o.functionSD = mat.NewDense(t, c, nil), mat.NewDense(t, c, nil)
	for i := range t {
		for j := range c {
			o.observationSD.Set(i, j, math.Sqrt(aleatoric.At(i, j)+epistemic.At(i, j)))
			o.functionSD.Set(i, j, math.Sqrt(max(0, o.scaled.At(i*c+j, j))))
		}
	}
	return nil
}

func sideBySide(a, b *mat.Dense) *mat.Dense {
	var m mat.Dense
	m.Augment(a, b)
	return &m
}

// rowOf is row i of m, nil for a nil matrix.
func rowOf(m *mat.Dense, i int) []report.Float {
	if m == nil {
		return nil
	}
	return report.Floats(m.RawRowView(i))
}

// covarianceOf is the C×C covariance of row i.
func covarianceOf(cov *mat.Dense, i int) [][]report.Float {
	_, c := cov.Dims()
	out := make([][]report.Float, c)
	for j := range c {
		out[j] = report.Floats(cov.RawRowView(i*c + j))
	}
	return out
}

// A score gathers what the summary of predictions needs.
type score struct {
	logp, mapLogp []float64
	prob          *mat.Dense // N×classes, nil for a regression
	right         int
}

func newScore(n, classes int) *score {
	s := &score{logp: make([]float64, n), mapLogp: make([]float64, n)}
	if classes > 0 {
		s.prob = mat.NewDense(n, classes, nil)
	}
	return s
}

// predictSummary is the last line with --json.
type predictSummary struct {
	Accuracy report.Float   `json:"accuracy"`
	NLL      report.Float   `json:"nll"`
	MAPNLL   report.Float   `json:"map_nll"`
	ECE      report.Float   `json:"ece"`
	Fit      report.Fit     `json:"fit"`
	Timings  report.Timings `json:"timings"`
}

func (s *score) summary(rows *dataset.Subset, fit report.Fit) *predictSummary {
	sum := &predictSummary{Accuracy: report.Undefined(), ECE: report.Undefined(), NLL: report.Float(glm.NLL(s.logp)), MAPNLL: report.Float(glm.NLL(s.mapLogp)), Fit: fit}
	if s.prob != nil {
		sum.Accuracy = report.Float(float64(s.right) / float64(len(s.logp)))
		sum.ECE = report.Float(glm.ECE(s.prob, rows.Class))
	}
	return sum
}

func (s *predictSummary) text(c *console, n int) {
	rows := "rows"
	if n == 1 {
		rows = "row"
	}
	c.note("%d %s", n, rows)
	if s.Accuracy.Finite() {
		c.note("accuracy  %.4f", float64(s.Accuracy))
	}
	c.note("NLL       %.4f (network alone %.4f)", float64(s.NLL), float64(s.MAPNLL))
	if s.ECE.Finite() {
		c.note("ECE       %.4f", float64(s.ECE))
	}
	switch m := int(s.Fit.Inducing); s.Fit.Method {
	case "nystrom":
		c.note("posterior Nyström through %d inducing rows%s", m, unexplained(&s.Fit))
	case "subset":
		c.note("posterior exact, of a subset of %d training rows", m)
	}
	for _, w := range s.Fit.Warnings {
		c.note("warning: %s", w)
	}
}

// unexplained says how much of the prior variance the inducing examples leave
// out, of training rows and of test rows.
func unexplained(f *report.Fit) string {
	text := ""
	if f.TraceError.Finite() {
		text = fmt.Sprintf(": %.2g %% of the prior variance of the training rows is not explained", 100*float64(f.TraceError))
	}
	if a := f.Approximation; a != nil && a.ResidualMean != nil {
		text += fmt.Sprintf(", %.2g %% of that of test rows", 100*float64(*a.ResidualMean))
	}
	return text
}
