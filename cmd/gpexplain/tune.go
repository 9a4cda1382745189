package main

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/sparse"
)

// mostHeldOut is the most rows that --tune-prior uses.
const mostHeldOut = 5000

// heldOut returns the rows on which a choice is made for a flag: the validation
// rows, or the last training rows that neither the posterior nor the network was
// trained on. An error says for what.
func (p *problem) heldOut(flag, use string) (*dataset.Subset, error) {
	d := p.examples.data
	part, o := d.Train, &dataset.SelectOptions{Classes: p.task.classes}
	used := slices.Clone(p.examples.train.Rows)
	if d.Valid.Len() > 0 {
		part, used = d.Valid, nil
	} else if meta := p.model.meta; meta.rows != "" && meta.data == fingerprint(part) {
		recorded, _ := parseRows(meta.rows, part.Len())
		used = append(used, recorded...)
	}
	all, err := part.Select(o)
	if err != nil {
		return nil, err
	}
	slices.Sort(used)
	for _, r := range all.Rows {
		if _, ok := slices.BinarySearch(used, r); !ok {
			o.Rows = append(o.Rows, r)
		}
	}
	if len(o.Rows) == 0 {
		remedy := ""
		if !d.Images() {
			remedy = "give --valid-data FILE, or "
		}
		return nil, fullErrorf("%s: all %d training rows of %s were trained on, none is left to %s; %strain and fit with --train-count %d", flag, all.Len(), d.Source, use, remedy, max(1, all.Len()*9/10))
	}
	o.Rows, o.From = o.Rows[max(0, len(o.Rows)-mostHeldOut):], flag
	return part.Select(o)
}

// tunePrior chooses the factor on the prior variances with the least negative
// log likelihood of the held-out rows.
func (f *fit) tunePrior(ctx context.Context, dual *sparse.Projected) (*sparse.Tuned, error) {
	rows, lik := f.heldOut, f.problem.task.likelihood
	y, err := f.problem.targets(rows)
	if err != nil {
		return nil, err
	}
	names := namesOf(rows, 0, rows.Len())
	f.con.detail("prior precision chosen on %d rows: %s", rows.Len(), names.all)
	prepared, err := dual.Prepare(ctx, f.problem.examples.source(f.problem.model, rows))
	if err != nil {
		return nil, &fullError{names.explainError(err)}
	}
	link := glm.DefaultLink(lik, f.problem.model.outputs)
	logp := make([]float64, rows.Len())
	tuned, err := dual.Tune(ctx, prepared, func(mean, cov *mat.Dense) (float64, error) {
		err := link.LogPredictiveTo(logp, lik, y, mean, cov)
		return glm.NLL(logp), err
	})
	if err != nil {
		return nil, err
	}
	for _, t := range tuned.Trials {
		f.trials = append(f.trials, trial{report.Float(f.precision / t.Factor), report.Float(t.Score)})
	}
	if math.Abs(math.Log10(tuned.Factor)) > 5.9 {
		f.con.warn(fmt.Errorf("--tune-prior: the held-out rows are predicted best at the end of the range of precisions searched, %.3g", f.precision/tuned.Factor))
	}
	return tuned, nil
}
