package serve

import (
	"bytes"
	"context"
	"sync"

	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/inference"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/problem"
	"github.com/funcgp/funcgp/linearize"
)

// An htmlFile is a page.
type htmlFile string

// pagePolicy lets a page use its own style and pictures, and nothing else.
const pagePolicy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// pages are what the pages of all explanations have in common, from the first one on.
type pages struct {
	mutex     sync.Mutex
	explainer *explain.Explainer // nil before
	origin    result.Origin
	spread    []float64
}

// page is an explanation as the page of gpexplain explain --html, of the contrast asked or nil for the default, with the
// prediction without training rows at these positions.
func (s *service) page(ctx context.Context, r *request, in *input, a *answer, without []int, asked *explain.Target) (htmlFile, error) {
	p, q, c := s.problem, s.posterior, &s.pages
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.explainer == nil {
		o := explain.Options{Top: s.most, Sides: true, Similar: defaultTerms, Curve: true, Groups: s.names.Groups(), ErrorBars: true, Limits: linearize.Limits{Memory: p.Limits.Memory}}
		if s.serial != nil {
			o.Similar = 0 // which takes the posterior variance of each example
		}
		e, err := explain.New(q.Dual, q.Kernel, &o)
		if err != nil {
			return "", err
		}
		c.origin = result.Origin{Model: p.Model.Name, Data: p.Examples.Data.Source}
		if c.origin.Record, err = p.Record(ctx, s.version); err != nil {
			return "", err
		}
		c.origin.Record.Command, c.origin.Record.Says = job.CommandLine(s.command), result.NoCause
		if c.origin.Record.Test, err = p.TestScores(ctx); err != nil {
			return "", err
		}
		if c.origin.Invert, err = p.Examples.Grey(ctx); err != nil {
			return "", err
		}
		if c.spread, err = p.Spread(ctx); err != nil {
			return "", err
		}
		c.explainer = e
	}
	targets := inference.Targets(p, a.predicted, 0, asked)
	list, err := c.explainer.ExplainTargets(ctx, a.batch, a.predicted.Cov, targets)
	if err != nil {
		return "", in.explain(ctx, err)
	}
	x := &result.Report{Input: result.Input{Split: in.rows.Part, Index: in.Index, Label: in.Label, LabelName: in.LabelName, ID: in.ID, Notes: in.Notes, Targets: problem.SeveralOf(in.rows, 0)},
		Classes: p.Task.ClassNames(), Labels: p.Task.LabelNames, Prediction: q.Prediction(p.Task, a.predicted, 0), Fit: q.Report(p, s.warnings)}
	if in.Index < 0 {
		x.Input.File = theInput
	}
	names := p.TrainingRows()
	names.ErrorBars = true
	top := min(s.most, defaultTerms)
	if r.Top != nil {
		top = min(s.most, *r.Top)
	}
	if err := s.cut(ctx, r, a, list[0], top); err != nil {
		return "", err
	}
	for _, one := range list[0] {
		one.Remainder = one.Target.Of(a.predicted.Mean.RawRowView(0)) - one.PriorMean - one.Sum
		x.Outputs = append(x.Outputs, names.Output(one))
	}
	switch {
	case len(without) > 0 && s.refits == nil:
		return "", refusef(422, "bad_without", "without: a page has it where a posterior is fitted again, and not by %s; leave it out", q.How.Name)
	case len(without) > 0:
		other, err := s.refits.without(ctx, without)
		if err != nil {
			return "", err
		}
		x.Without = &result.Changed{Rows: r.Without}
		if _, err := q.ChangeTo(ctx, p, x.Without, other, a.batch, s.link); err != nil {
			return "", in.explain(ctx, err)
		}
	}
	if r.Flip {
		if x.SmallestFlip, err = s.smallestFlip(ctx, in, a); err != nil {
			return "", err
		}
	}
	interval, err := a.predicted.Interval(ctx, p)
	if err != nil {
		return "", in.explain(ctx, err)
	}
	input, err := p.Examples.Inputs(ctx, in.rows, 0, 1)
	if err != nil {
		return "", err
	}
	shown, err := p.Examples.Picture(ctx, in.rows, 0)
	if err != nil {
		return "", err
	}
	from := c.origin
	from.Record.Scored = result.NewScored(input.RawRowView(0), &x.Prediction)
	x.Record = &from.Record
	var unread error
	page := &report.Page{Report: x, Test: shown, Train: p.Examples.Pictures(ctx, p.Examples.Train, &unread), Quantity: p.Task.Quantity(p.Examples.Data.Target), Origin: from,
		Classes: x.Classes, Columns: s.outputs, Spread: c.spread, Interval: interval}
	var b bytes.Buffer
	if err := page.WriteHTML(&b); err != nil {
		return "", err
	}
	return htmlFile(b.String()), unread
}
