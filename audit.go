package funcgp

import (
	"context"
	"fmt"
	"math"

	"github.com/funcgp/funcgp/explain/audit"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/job"
)

// An Audit lists training rows that are worth a look.
type Audit = result.Audit

// Audit predicts each training row without it, as gpexplain audit does, and lists the top rows of each kind: those
// that the others contradict most, of classes only rows whose label is not the most probable one; rows that are the same
// or nearly the same; rows near a boundary between classes; and rows of high leverage. top 0 is 20. Labels and targets
// are predicted by a regression of those of the other rows on the Jacobian
// at shuffled parameters, which no label has trained (audit.OfLabels); counts, and labels of more than 12,000 rows, by
// the posterior without the row in closed form (E17 of doc/equations.md), as leverage and entropy are. A posterior that
// leaves out rows slowly has these of a sample, drawn by the seed of its fit. A negative top is an error,
// and so is a context that is done. Record of the answer is nil: see Posterior.Record.
func (p *Posterior) Audit(ctx context.Context, top int) (*Audit, error) {
	return p.audit(ctx, top, nil)
}

// AuditPart scores the training rows [lo, hi) for AuditOf, which takes the scores of all parts, and for tables.
func (p *Posterior) AuditPart(ctx context.Context, lo, hi int) (scored []audit.Example, rows []result.AuditScores, err error) {
	end, err := p.functions(ctx, "AuditPart")
	if err != nil {
		return nil, nil, err
	}
	defer end()
	found, err := p.post.AuditPart(ctx, job.FromContext(ctx), p.problem, lo, hi)
	if err != nil {
		return nil, nil, named(err)
	}
	return found.Examples, p.auditScores(&audited{Audit: found}), nil
}

// AuditOf does what Audit does for rows that AuditPart has scored. Each row must occur once, and the rows must
// ascend.
func (p *Posterior) AuditOf(ctx context.Context, top int, scored []audit.Example) (*Audit, error) {
	return p.audit(ctx, top, append([]audit.Example{}, scored...))
}

// mostListed is how many rows of a kind are listed by default.
const mostListed = 20

// audit lists the top rows among the scored examples, or among all training rows if scored is nil.
func (p *Posterior) audit(ctx context.Context, top int, scored []audit.Example) (*Audit, error) {
	end, err := p.functions(ctx, "Audit")
	if err != nil {
		return nil, err
	}
	defer end()
	if top < 0 {
		return nil, fmt.Errorf("funcgp: %d rows are asked of Audit; give how many to list, or 0 for %d", top, mostListed)
	}
	if top == 0 {
		top = mostListed
	}
	c := job.FromContext(ctx)
	found, err := p.post.Audit(ctx, c, p.problem, top, scored)
	if err != nil {
		return nil, named(err)
	}
	a := p.listed(found, top)
	a.Fit = p.reportOf(c, p.post)
	err = c.EndPart(ctx, "predict")
	a.Timings = c.TimingsSoFar()
	return a, named(err)
}

// listed takes the first rows of each list.
func (p *Posterior) listed(found *audited, top int) *Audit {
	classes, wrong := p.problem.Task.Classes != nil, found.Wrong()
	a := &Audit{Schema: "funcgp/audit/1", By: "posterior", Examples: len(found.Examples), Effective: result.Float(found.Effective),
		Meanings:    map[string]string{"log_density": result.DensityMeaning(classes), "correlation": result.DuplicateMeaning, "leverage": result.LeverageMeaning},
		Mislabelled: []result.Suspect{}, Duplicates: []result.Duplicate{}, Boundary: []result.NearBoundary{}, Leverage: []result.HighLeverage{}, Scores: p.auditScores(found)}
	if classes {
		a.Meanings["supports"], a.Meanings["boundary"] = result.SupportMeaning, result.BoundaryMeaning
	} else {
		a.Meanings["supports"], a.Meanings["residual"] = result.PullMeaning, result.ResidualMeaning
	}
	if found.Labels != nil {
		noise := result.Float(found.Labels.Regression.Noise)
		a.By, a.Noise = "labels", &noise
		a.Meanings["supports"] += "; here f is a regression of the labels"
	}
	suspects := 0
	for _, k := range wrong.Mislabelled {
		x := &wrong.Examples[k]
		if classes && !x.Suspect() {
			continue
		}
		if suspects++; suspects <= top {
			a.Mislabelled = append(a.Mislabelled, p.suspect(x, &a.Scores[k]))
		}
	}
	if classes {
		a.Suspects = &suspects
	}
	for _, d := range found.Duplicates {
		a.Duplicates = append(a.Duplicates, result.Duplicate{First: p.names.Named(d.First), Second: p.names.Named(d.Second), Correlation: result.Float(d.Correlation), Equal: d.Equal, Conflict: d.Conflict})
	}
	for _, k := range found.Boundary[:min(top, len(found.Boundary))] {
		x := &found.Examples[k]
		b := result.NearBoundary{NamedRow: p.names.Named(x.Index), Entropy: result.Float(x.Entropy), Margin: result.Float(x.Margin)}
		first, second := x.Suggested, -1
		for k, v := range x.Probability {
			if k != first && (second < 0 || v > x.Probability[second]) {
				second = k
			}
		}
		for _, k := range []int{first, second} {
			label := result.Float(p.problem.Task.Classes[k])
			b.Between = append(b.Between, label)
			if name := p.problem.NameOf(label); name != "" {
				b.Names = append(b.Names, name)
			}
		}
		a.Boundary = append(a.Boundary, b)
	}
	for _, k := range found.Leverage[:min(top, len(found.Leverage))] {
		x := &found.Examples[k]
		a.Leverage = append(a.Leverage, result.HighLeverage{NamedRow: p.names.Named(x.Index), Leverage: result.Float(x.Leverage)})
	}
	return a
}

// suspect reports a row whose label the other rows contradict, with its scores.
func (p *Posterior) suspect(x *audit.Example, scores *result.AuditScores) result.Suspect {
	s := result.Suspect{NamedRow: scores.NamedRow, LogDensity: scores.LogDensity, Residual: result.Floats(x.Residual), Supports: []result.Support{}}
	if x.Residual == nil {
		s.Suggested, s.SuggestedName, s.SuggestedProbability, s.LabelProbability = &scores.Suggested, scores.SuggestedName, &scores.SuggestedProbability, &scores.LabelProbability
	}
	for _, v := range x.Supports {
		s.Supports = append(s.Supports, result.Support{NamedRow: p.names.Named(v.Index), Value: result.Float(v.Value)})
	}
	return s
}

// auditScores returns the scores of all rows that were searched for wrong labels.
func (p *Posterior) auditScores(found *audited) []result.AuditScores {
	examples, none := found.Wrong().Examples, result.Undefined()
	out := make([]result.AuditScores, len(examples))
	for i := range examples {
		x := &examples[i]
		s := result.AuditScores{NamedRow: p.names.Named(x.Index), LogDensity: result.Float(x.LogDensity), Suggested: none, SuggestedProbability: none, LabelProbability: none,
			Residual: none, Entropy: none, Margin: none, Leverage: none, EqualTo: -1}
		if x.Probability != nil {
			s.Suggested = result.Float(p.problem.Task.Classes[x.Suggested])
			s.SuggestedName = p.problem.NameOf(s.Suggested)
			s.SuggestedProbability, s.LabelProbability = result.Float(x.Probability[x.Suggested]), result.Float(x.Probability[x.Label])
		}
		for _, z := range x.Residual {
			if !(math.Abs(z) <= math.Abs(float64(s.Residual))) {
				s.Residual = result.Float(z)
			}
		}
		if own := found.Of(x.Index); own != nil {
			s.Entropy, s.Margin, s.Leverage = result.Float(own.Entropy), result.Float(own.Margin), result.Float(own.Leverage)
		}
		if x.EqualTo >= 0 {
			s.EqualTo = p.names.Named(x.EqualTo).Index
		}
		out[i] = s
	}
	return out
}
