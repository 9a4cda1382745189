package serve

import (
	"bytes"
	"context"
	"sync"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/job"
)

// An htmlFile is the text of an HTML page.
type htmlFile string

// pagePolicy is the Content-Security-Policy of the page of an explanation. It allows the page's own style and
// pictures, and nothing else.
const pagePolicy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// pages caches what the pages of all explanations have in common.
type pages struct {
	mutex  sync.Mutex
	origin *result.Origin // nil before the first page
	spread []float64
}

// page returns an explanation as an HTML page, as gpexplain explain --html writes it. If the request names training
// rows to leave out, the page has the prediction without them.
func (s *service) page(ctx context.Context, r *request, in *input, x *funcgp.Explanation) (htmlFile, error) {
	if len(r.Without) > 0 {
		if !s.refits {
			return "", refusef(unprocessable, "bad_without", "{without}: a page has it where a posterior is fitted again, and not by %s; leave it out", s.info.Method)
		}
		p, err := s.predictWithout(ctx, in, r.Without)
		if err != nil {
			return "", err
		}
		x.Without = &result.Changed{Rows: r.Without, Mean: p.Mean, Probability: p.Probability, Class: p.Class, ClassName: p.ClassName}
	}
	from, spread, err := s.origin(ctx)
	if err != nil {
		return "", err
	}
	shown, err := in.rows.Shown(ctx, 0)
	if err != nil {
		return "", err
	}
	if from.Record.Scored, err = in.rows.Scored(ctx, 0, &x.Prediction); err != nil {
		return "", err
	}
	x.Record = &from.Record
	var unread error
	page := &report.Page{Report: x, Test: shown, Train: s.front.Pictures(ctx, &unread), Quantity: s.front.Quantity(), Origin: from, Classes: x.Classes, Columns: s.outputs, Spread: spread, Interval: x.Interval}
	var b bytes.Buffer
	if err := page.WriteHTML(&b); err != nil {
		return "", err
	}
	return htmlFile(b.String()), unread
}

// origin returns what a page says about where its numbers come from, and the standard deviations of the features.
func (s *service) origin(ctx context.Context) (from result.Origin, spread []float64, err error) {
	c := &s.pages
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.origin == nil {
		if from, err = s.front.Origin(ctx); err != nil {
			return from, nil, err
		}
		if c.spread, err = s.front.Spread(ctx); err != nil {
			return from, nil, err
		}
		from.Record.Version, from.Record.Command, from.Record.Says = s.version, job.CommandLine(s.command), result.NoCause
		c.origin = &from
	}
	return *c.origin, c.spread, nil
}
