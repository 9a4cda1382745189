package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/par"
)

type predictFlags struct {
	index     int
	testIndex string
	link      string
	samples   int
	way

	row bool // --index was given
}

var links = []string{"exact", "probit", "mc", "bridge"}

func predictVerb(inv *invocation) *cobra.Command {
	var e predictFlags
	v := &verb{
		name:  "predict",
		short: "Predict test rows with calibrated uncertainty",
		long: `Predict writes one JSON object a line for every test row asked for, in order,
and a summary: as text on standard error, or with --json as the last line.`,
		example: `  gpexplain predict --index 24
  gpexplain predict --json > predictions.jsonl`,
		flags: e.add, check: e.check, run: e.run,
		complete: wayValues(map[string][]string{"link": links}),
	}
	return v.command(inv)
}

func (e *predictFlags) add(c *cobra.Command) {
	f := c.Flags()
	f.IntVar(&e.index, "index", 0, "predict only test row `I`, counted from 0 in the original file")
	f.StringVar(&e.testIndex, "test-index", "", "predict the test rows listed in `FILE`, one row number a line, in that order")
	e.way.add(c)
	e.addRefit(c, false, "move to the optimum of the linearized model first; otherwise the mean is the network's output")
	e.addFile(c)
	f.StringVar(&e.link, "link", "", "`METHOD` from outputs to probabilities: exact, probit, mc or bridge (default exact for one output, otherwise probit)")
	f.IntVar(&e.samples, "samples", 1000, "`S` draws of --link mc")
}

func (e *predictFlags) check(s *shared) error {
	f := s.cmd.Flags()
	e.row = f.Changed("index")
	switch {
	case e.row && e.testIndex != "":
		return usagef("--index and --test-index exclude each other")
	case e.index < 0:
		return usagef("--index %d must be 0 or more", e.index)
	case e.samples < 1:
		return usagef("--samples %d must be at least 1", e.samples)
	case e.link != "" && !slices.Contains(links, e.link):
		return usagef("--link %q must be exact, probit, mc or bridge", e.link)
	case f.Changed("samples") && e.link != "mc":
		return usagef("--samples is for --link mc")
	case e.link == "exact" && s.likelihood == "categorical",
		(e.link == "probit" || e.link == "bridge") && s.likelihood != "" && !isClassified(s.likelihood):
		return usagef("--link %s is not for --likelihood %s", e.link, s.likelihood)
	}
	return e.way.check(s)
}

// choose returns the link for the session's likelihood and network.
func (e *predictFlags) choose(s *session) (glm.Link, error) {
	_, c, _ := s.net.Dims()
	var link glm.Link = glm.MonteCarlo{Samples: e.samples, Seed: s.seed}
	fits := true
	switch e.link {
	case "":
		link = glm.DefaultLink(s.lik, c)
	case "exact":
		link = glm.Exact{}
		_, fits = s.lik.(glm.Marginal)
		fits = fits || c == 1
	case "probit":
		link = glm.Probit{}
		_, fits = s.lik.(glm.Logistic)
	case "bridge":
		link = glm.Bridge{}
		_, fits = s.lik.(glm.Logistic)
	}
	if !fits {
		return nil, fmt.Errorf("--link %s is not for the %s likelihood of %s; leave it out or use mc", e.link, s.lik.Name(), s.name)
	}
	return link, nil
}

// prediction is one line of output.
type prediction struct {
	Index          int              `json:"index"`
	Label          report.Float     `json:"label"`
	Class          report.Float     `json:"class"`
	Probability    []report.Float   `json:"probability"`
	MAPProbability []report.Float   `json:"map_probability"`
	Mean           []report.Float   `json:"mean"`
	Covariance     [][]report.Float `json:"covariance"`
}

// predictTile is how many rows are handled at a time where nothing says more.
const predictTile = 256

// tileRows is how many test rows are predicted at a time: as many as keep
// their cross-kernel with the training rows, or the inducing ones, near 32
// MiB, since every tile goes through all of them once, and their Jacobian
// within keepBytes.
func (p *posterior) tileRows() int {
	_, c, _ := p.net.Dims()
	n := p.train.Len()
	if p.sparse() {
		n = p.inducing
	}
	rows := min(max((4<<20)/(c*c*n), 64), 2048)
	// A bound that is the same on every machine: the tile decides the last bits.
	for rows > 1 && p.net.BatchBytes(rows) > keepBytes {
		rows /= 2
	}
	return rows
}

func (e *predictFlags) run(ctx context.Context, sh *shared) error {
	s, err := openSession(ctx, sh, &e.way)
	if err != nil {
		return err
	}
	link, err := e.choose(s)
	if err != nil {
		return err
	}
	sub, err := e.rows(ctx, s)
	if err != nil {
		return err
	}
	_, c, _ := s.net.Dims()
	y, err := s.targets(sub, c)
	if err != nil {
		return err
	}
	p, err := s.posterior(ctx, &e.way)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(s.out)
	w := &predictor{posterior: p, sub: sub, y: y, link: link, score: newScore(sub.Len(), len(s.classed)), lines: lineEncoder(out)}
	tile := p.tileRows()
	for i := range par.Tiles(sub.Len(), tile) {
		lo, hi := par.Bounds(i, sub.Len(), tile)
		if err := w.rows(ctx, lo, hi); err != nil {
			return err
		}
		s.progress.show("predict", hi, sub.Len())
	}
	s.progress.clear()
	sum := w.score.summary(p, sub)
	if err := s.lap(ctx, "predict"); err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	s.watch.lap("write")
	sum.Timings = s.watch.timings()
	if s.json {
		return lineEncoder(s.out).Encode(sum)
	}
	sum.text(s, sub.Len())
	return nil
}

func (e *predictFlags) rows(ctx context.Context, s *session) (*dataset.Subset, error) {
	var o dataset.SelectOptions
	switch {
	case e.row:
		o = dataset.SelectOptions{Rows: []int{e.index}, From: "--index"}
	case e.testIndex != "":
		rows, err := dataset.ReadRows(ctx, e.testIndex)
		if err != nil {
			return nil, err
		}
		o = dataset.SelectOptions{Rows: rows, From: e.testIndex}
	}
	return s.selectTest(o)
}

// lineEncoder writes JSON as it is, one object a line.
func lineEncoder(w io.Writer) *json.Encoder {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc
}

// A predictor writes predictions of the rows of a subset and keeps score.
type predictor struct {
	*posterior
	sub   *dataset.Subset
	y     *mat.Dense
	link  glm.Link
	score *score
	lines *json.Encoder
}

// rows predicts the rows [lo, hi).
func (w *predictor) rows(ctx context.Context, lo, hi int) error {
	here := rowsOf(w.sub, lo, hi)
	b, err := w.net.Linearize(ctx, w.inputsAt(w.sub, lo, hi))
	if err != nil {
		return here.fault(err)
	}
	pred, err := w.predict(ctx, b, w.link)
	if err != nil {
		return here.fault(err)
	}
	targets := w.y.Slice(lo, hi, 0, 1).(*mat.Dense)
	if err := w.link.LogPredictiveTo(w.score.logp[lo:hi], w.lik, targets, pred.mean, pred.cov); err != nil {
		return here.fault(err)
	}
	for i := range hi - lo {
		if err := ctx.Err(); err != nil {
			return err
		}
		f := b.F.RawRowView(i)
		w.score.mapLogp[lo+i] = w.lik.LogProb(targets.RawRowView(i), f)
		if pred.prob != nil {
			copy(w.score.prob.RawRowView(lo+i), pred.prob.RawRowView(i))
			if argmaxClass(f) == w.sub.Class[lo+i] {
				w.score.right++
			}
		}
		line := prediction{Index: w.sub.Rows[lo+i], Label: report.Float(label(w.sub, lo+i)), Class: report.Float(w.class(f)), Probability: rowOf(pred.prob, i),
			MAPProbability: rowOf(pred.map0, i), Mean: rowOf(pred.mean, i), Covariance: block(pred.cov, i)}
		if err := w.lines.Encode(line); err != nil {
			return err
		}
	}
	return nil
}
