package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"

	"github.com/spf13/cobra"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/par"
)

type predictFlags struct {
	index     int
	testIndex string
	link      string
	refit     bool
	samples   int
	row       bool
}

func predictVerb() *cobra.Command {
	var e predictFlags
	return verb("predict", "Predict test rows with calibrated uncertainty",
		`Predict writes one JSON object a line for every test row asked for, in order,
and a summary: on standard error, or with --json as the last line.`,
		func(c *cobra.Command) func() error {
			f := c.Flags()
			f.IntVar(&e.index, "index", 0, "predict only this test `ROW` of the original file")
			f.StringVar(&e.testIndex, "test-index", "", "predict the test rows listed in `FILE`, in order")
			f.BoolVar(&e.refit, "refit", true, "move to the optimum of the linearized model first")
			f.StringVar(&e.link, "link", "", "exact, probit, mc or bridge (default exact for one output, otherwise probit)")
			f.IntVar(&e.samples, "samples", 1000, "draws of --link mc")
			return func() error { return e.check(c) }
		},
		func(c *cobra.Command, s *shared) error { return e.run(c.Context(), c.OutOrStdout(), s) })
}

func (e *predictFlags) check(c *cobra.Command) error {
	e.row = c.Flags().Changed("index")
	switch {
	case e.row && e.testIndex != "":
		return usagef("--index and --test-index exclude each other")
	case e.index < 0:
		return usagef("--index %d must be 0 or more", e.index)
	case e.samples < 1:
		return usagef("--samples %d must be at least 1", e.samples)
	}
	switch e.link {
	case "", "exact", "probit", "mc", "bridge":
		return nil
	}
	return usagef("--link %q must be exact, probit, mc or bridge", e.link)
}

// choose returns the link for a likelihood.
func (e *predictFlags) choose(s *session) (glm.Link, error) {
	switch e.link {
	case "exact":
		if _, ok := s.lik.(glm.Marginal); !ok {
			return nil, fmt.Errorf("--link exact is for one output or a regression; use probit, mc or bridge for the %s likelihood", s.lik.Name())
		}
		return glm.Exact{}, nil
	case "probit":
		return glm.Probit{}, s.wantsClasses()
	case "bridge":
		return glm.Bridge{}, s.wantsClasses()
	case "mc":
		return glm.MonteCarlo{Samples: e.samples, Seed: s.seed}, nil
	}
	return glm.DefaultLink(s.lik), nil
}

func (s *session) wantsClasses() error {
	if s.classed == nil {
		return fmt.Errorf("--link probit and bridge are for classes; the likelihood is %s", s.lik.Name())
	}
	return nil
}

// prediction is one line of output.
type prediction struct {
	Index          int               `json:"index"`
	Label          explain.Float     `json:"label"`
	Class          explain.Float     `json:"class"`
	Probability    []explain.Float   `json:"probability"`
	MAPProbability []explain.Float   `json:"map_probability"`
	Mean           []explain.Float   `json:"mean"`
	Covariance     [][]explain.Float `json:"covariance"`
}

// predictSummary is the last line with --json.
type predictSummary struct {
	Accuracy explain.Float   `json:"accuracy"`
	NLL      explain.Float   `json:"nll"`
	MAPNLL   explain.Float   `json:"map_nll"`
	ECE      explain.Float   `json:"ece"`
	Fit      explain.Fit     `json:"fit"`
	Timings  explain.Timings `json:"timings"`
}

// predictTile is how many test rows are in memory at a time.
const predictTile = 256

func (e *predictFlags) run(ctx context.Context, stdout io.Writer, sh *shared) error {
	s, err := openSession(ctx, sh)
	if err != nil {
		return err
	}
	link, err := e.choose(s)
	if err != nil {
		return err
	}
	sub, err := e.rows(s)
	if err != nil {
		return err
	}
	_, c, _ := s.net.Dims()
	y, err := s.targets(sub, c)
	if err != nil {
		return err
	}
	p, err := s.fit(ctx, e.refit)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(stdout)
	score := newScore(sub.Len(), len(s.classed))
	for i := range par.Tiles(sub.Len(), predictTile) {
		lo, hi := par.Bounds(i, sub.Len(), predictTile)
		if err := e.tile(ctx, p, sub, y, link, score, lo, hi, out); err != nil {
			return err
		}
		s.progress.show("predict", hi, sub.Len())
	}
	s.progress.clear()
	sum := score.summary(p, sub)
	s.watch.lap("predict")
	if err := out.Flush(); err != nil {
		return fmt.Errorf("writing predictions: %w", err)
	}
	s.watch.lap("write")
	sum.Timings = s.watch.timings()
	if s.json {
		enc := json.NewEncoder(stdout)
		enc.SetEscapeHTML(false)
		return enc.Encode(sum)
	}
	sum.text(s, sub.Len())
	return nil
}

func (e *predictFlags) rows(s *session) (*dataset.Subset, error) {
	switch {
	case e.row:
		return s.selectTest([]int{e.index}, "--index")
	case e.testIndex != "":
		rows, err := dataset.ReadRows(e.testIndex)
		if err != nil {
			return nil, err
		}
		return s.selectTest(rows, e.testIndex)
	}
	return s.selectTest(nil, "")
}

// tile predicts rows [lo, hi) and writes them.
func (e *predictFlags) tile(ctx context.Context, p *posterior, sub *dataset.Subset, y *mat.Dense, link glm.Link, score *score, lo, hi int, out io.Writer) error {
	x := sub.Set.Matrix(sub.Pos[lo:hi])
	p.scaling.Apply(x)
	b, err := p.net.Linearize(ctx, x)
	if err != nil {
		return err
	}
	pred, err := p.predict(b, link)
	if err != nil {
		return err
	}
	targets := y.Slice(lo, hi, 0, 1).(*mat.Dense)
	if err := link.LogPredictiveTo(score.logp[lo:hi], p.lik, targets, pred.mean, pred.cov); err != nil {
		return err
	}
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	for i := range hi - lo {
		f := b.F.RawRowView(i)
		score.mapLogp[lo+i] = p.lik.LogProb(targets.RawRowView(i), f)
		if pred.prob != nil {
			copy(score.prob.RawRowView(lo+i), pred.prob.RawRowView(i))
			if argmaxClass(f) == sub.Class[lo+i] {
				score.right++
			}
		}
		line := prediction{Index: sub.Rows[lo+i], Label: explain.Float(label(sub, lo+i)), Class: explain.Float(p.class(f)), Probability: rowOf(pred.prob, i),
			MAPProbability: rowOf(pred.map0, i), Mean: rowOf(pred.mean, i), Covariance: block(pred.cov, i)}
		if err := enc.Encode(line); err != nil {
			return fmt.Errorf("writing predictions: %w", err)
		}
	}
	return nil
}

// score gathers what the summary needs.
type score struct {
	logp, mapLogp []float64
	prob          *mat.Dense
	right         int
}

func newScore(n, classes int) *score {
	s := &score{logp: make([]float64, n), mapLogp: make([]float64, n)}
	if classes > 0 {
		s.prob = mat.NewDense(n, classes, nil)
	}
	return s
}

func (s *score) summary(p *posterior, sub *dataset.Subset) *predictSummary {
	sum := &predictSummary{Accuracy: explain.Undefined(), ECE: explain.Undefined(), NLL: explain.Float(glm.NLL(s.logp)), MAPNLL: explain.Float(glm.NLL(s.mapLogp)), Fit: p.report()}
	if s.prob != nil {
		sum.Accuracy = explain.Float(float64(s.right) / float64(len(s.logp)))
		sum.ECE = explain.Float(glm.ECE(s.prob, sub.Class))
	}
	return sum
}

func (s *predictSummary) text(p *session, n int) {
	p.note("%d rows", n)
	if !math.IsNaN(float64(s.Accuracy)) {
		p.note("accuracy  %.4f", float64(s.Accuracy))
	}
	p.note("NLL       %.4f (network alone %.4f)", float64(s.NLL), float64(s.MAPNLL))
	if !math.IsNaN(float64(s.ECE)) {
		p.note("ECE       %.4f", float64(s.ECE))
	}
	for _, w := range s.Fit.Warnings {
		p.note("warning: %s", w)
	}
}
