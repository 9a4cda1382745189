package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/funcgp/funcgp/cmd/gpexplain/internal/flags"
	"github.com/funcgp/funcgp/explain/audit"
	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/console"
	"github.com/funcgp/funcgp/internal/inference"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/problem"
	"github.com/funcgp/funcgp/sparse/parts"
)

type auditVerb struct {
	common    problem.Flags
	posterior inference.Flags

	calibrate string

	top       int
	html, csv string

	part   partFlags
	merged []audit.Example // of all parts, in place of leaving out rows; nil where they are to be left out
}

func auditCommand(con *console.Console) *cobra.Command {
	s := &auditVerb{}
	v := &verb{
		name:  "audit",
		short: "Rank training rows that are worth a look",
		long: `Audit predicts each training row without it, and lists the rows whose label the others
contradict, with the label that they suggest and those that say so most; rows that are the
same or nearly the same; rows near a boundary between classes; and rows that fix the function
at their own input. --csv writes the scores of all rows.

A network that was trained until it repeated every label has seen the wrong ones too. Labels
and the targets of regressions are therefore predicted by a regression of those of the other
rows on the Jacobian of the network with shuffled parameters, and all other scores are of
the posterior without the row. Counts, and more than 12,000 rows, are left to the posterior.

Where leaving out each of many rows takes long, a sample of them has the scores of the
posterior. --shard I/N audits all rows in parts, by as many processes, and gpexplain merge
prints the lists of all parts; --csv then has the rows of the part, all scores by the
posterior, and does not tell which are equal.`,
		example: `  gpexplain audit
  gpexplain audit --top 50 --html page.html --csv scores.csv
  gpexplain audit --tune-prior loo
  gpexplain fit --method nystrom --inducing 200 -o all.gp
  gpexplain audit --posterior all.gp --shard 0/2 -o part0.audit
  gpexplain audit --posterior all.gp --shard 1/2 -o part1.audit
  gpexplain merge part0.audit part1.audit`,
		flags: s.add, run: s.run, writes: []string{"html", "csv", "out"},
		check: func(*cobra.Command) error { return s.part.parse() },
		rules: append(s.part.rules("html", "json"),
			flags.AtLeast(1, "top"),
		),
	}
	return v.command(con, &s.common)
}

func (s *auditVerb) add(c *cobra.Command) {
	f := c.Flags()
	f.IntVar(&s.top, "top", 20, "list `K` training rows of each kind")
	f.StringVar(&s.html, "html", "", "write the lists as a page to `FILE`")
	f.StringVar(&s.csv, "csv", "", "write the scores of all training rows as a table to `FILE`")
	s.part.add(c, "score part `I/N` of the training rows, 0/N to N-1/N, for gpexplain merge")
	flags.Method(c, &s.posterior)
	flags.Answer(c, &s.posterior)
	flags.Tune(c, &s.posterior)
	flags.Posterior(c, &s.posterior)
	flags.Calibration(c, &s.calibrate)
}

func (s *auditVerb) run(ctx context.Context, c *console.Console) error {
	p, err := problem.OpenGrouped(ctx, c.Job, &s.common, s.posterior.File)
	if err != nil {
		return err
	}
	q, err := inference.Answer(ctx, c.Job, p, &s.posterior, s.calibrate)
	if err != nil {
		return err
	}
	if s.part.text != "" {
		return s.writePart(ctx, c, p, q)
	}
	var found *inference.Audited
	if s.merged != nil {
		found, err = q.AuditOf(ctx, c.Job, p, s.top, s.merged)
	} else {
		found, err = q.Audit(ctx, c.Job, p, s.top)
	}
	if err != nil {
		return err
	}
	r := newAuditReport(p, found, s.top)
	r.Fit = q.Report(p, c.Warnings)
	if err := c.EndPart(ctx, "predict"); err != nil {
		return err
	}
	if err := s.writeCSV(c, p, found); err != nil {
		return err
	}
	from, err := origin(ctx, c, p, s.html != "")
	if err != nil {
		return err
	}
	r.Record, r.Timings = &from.Record, c.TimingsSoFar() // a page shows the time until it is written
	var unread error
	page := &report.ListPage{Title: "Training rows worth a look", Eyebrow: fmt.Sprintf("%s training rows, each predicted by the others", job.Count(r.Examples)), Lists: r.lists(),
		Picture: p.Examples.Pictures(ctx, p.Examples.Train, &unread), Fit: &r.Fit, Timings: &r.Timings, Origin: from}
	if err := writePage(c, s.html, page.WriteHTML, &unread); err != nil {
		return err
	}
	r.Timings = c.Timings()
	if c.JSON {
		return json.NewEncoder(c.Out).Encode(r)
	}
	console.NoteTuning(c.Job, &r.Fit)
	return page.WriteText(c.Out, c.Out.Columns())
}

// writePart writes the scores of a part of the training rows.
func (s *auditVerb) writePart(ctx context.Context, c *console.Console, p *problem.Problem, q *inference.Posterior) error {
	done, err := parts.NewAuditPart(ctx, c.Job, p, q, s.part.part, s.top, s.calibrate)
	if err != nil {
		return err
	}
	if err := s.writeCSV(c, p, &inference.Audited{Audit: &audit.Audit{Examples: done.Examples()}}); err != nil {
		return err
	}
	if err := done.Write(s.part.out); err != nil {
		return err
	}
	lo, _ := s.part.part.Rows(p.Examples.Train.Len())
	_, err = fmt.Fprintf(c.Out, "wrote %s: part %v, %d training rows from the %s\n", s.part.out, s.part.part, len(done.Examples()), ordinal(lo))
	return err
}

// writeCSV writes the scores of rows to --csv.
func (s *auditVerb) writeCSV(c *console.Console, p *problem.Problem, found *inference.Audited) error {
	return tabulate(c, s.csv, auditColumns(p, found), func(add func(*audit.Example) error) error {
		examples := found.Wrong().Examples
		for i := range examples {
			if err := add(&examples[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// The lines that say what the scores are, on every output.
const (
	mislabelledMeaning = "log density of the row's own %s, in nats, predicted without the row: the lower, the more the other rows contradict it"
	residualMeaning    = "residual: (target − prediction without the row) in standard deviations; positive where the target is above the prediction"
	supportMeaning     = "value of a row that says so: its term in the sum that makes up f of the suggested label less f of the row's own, in units of f; positive: it speaks against the label"
	pullMeaning        = "value of a row that pulls away: its term in the sum that makes up the prediction, in units of f; positive: away from the target"
	duplicateMeaning   = "posterior correlation of the functions at both rows, no unit, at most 1: the nearer to 1, the more one row says what the other does"
	boundaryMeaning    = "entropy of the class probabilities predicted without the row, in nats: the higher, the nearer the row is to a boundary; margin: the difference of the two largest probabilities, near 0 at a boundary"
	leverageMeaning    = "leverage: how many of its outputs the row fixes by itself, tr Λh, no unit, from 0 to the number of outputs; those of all rows add up to the effective number of parameters"
)

// auditReport is the JSON of audit.
type auditReport struct {
	Schema      string            `json:"schema"`
	Meanings    map[string]string `json:"meanings"`
	By          string            `json:"by"`
	Noise       *result.Float     `json:"noise"`
	Examples    int               `json:"examples"`
	Effective   result.Float      `json:"effective_parameters"`
	Suspects    *int              `json:"suspects"`
	Mislabelled []suspectRow      `json:"mislabelled"`
	Duplicates  []duplicateRows   `json:"duplicates"`
	Boundary    []boundaryRow     `json:"boundary"`
	Leverage    []leverageRow     `json:"leverage"`
	Record      *result.Record    `json:"record"`
	Fit         result.Fit        `json:"fit"`
	Timings     result.Timings    `json:"timings"`
}

type suspectRow struct {
	result.NamedRow
	LogDensity           result.Float   `json:"log_density"`
	Suggested            *result.Float  `json:"suggested,omitempty"`
	SuggestedName        string         `json:"suggested_name,omitempty"`
	SuggestedProbability *result.Float  `json:"suggested_probability,omitempty"`
	LabelProbability     *result.Float  `json:"label_probability,omitempty"`
	Residual             []result.Float `json:"residual,omitempty"`
	Supports             []supportRow   `json:"supports"`
}

type supportRow struct {
	result.NamedRow
	Value result.Float `json:"value"`
}

type duplicateRows struct {
	First       result.NamedRow `json:"first"`
	Second      result.NamedRow `json:"second"`
	Correlation result.Float    `json:"correlation"`
	Equal       bool            `json:"equal"`
	Conflict    bool            `json:"conflict"`
}

type boundaryRow struct {
	result.NamedRow
	Entropy result.Float   `json:"entropy"`
	Margin  result.Float   `json:"margin"`
	Between []result.Float `json:"between"`
	Names   []string       `json:"between_names,omitempty"`
}

type leverageRow struct {
	result.NamedRow
	Leverage result.Float `json:"leverage"`
}

// newAuditReport takes the first rows of each list.
func newAuditReport(p *problem.Problem, found *inference.Audited, top int) *auditReport {
	rows, wrong := p.TrainingRows(), found.Wrong()
	r := &auditReport{Schema: "funcgp/audit/1", By: "posterior", Examples: len(found.Examples), Effective: result.Float(found.Effective),
		Meanings:    map[string]string{"log_density": fmt.Sprintf(mislabelledMeaning, "label"), "supports": supportMeaning, "correlation": duplicateMeaning, "leverage": leverageMeaning},
		Mislabelled: []suspectRow{}, Duplicates: []duplicateRows{}, Boundary: []boundaryRow{}, Leverage: []leverageRow{}}
	if p.Task.Classes == nil {
		r.Meanings["log_density"], r.Meanings["supports"], r.Meanings["residual"] = fmt.Sprintf(mislabelledMeaning, "target"), pullMeaning, residualMeaning
	} else {
		r.Meanings["boundary"] = boundaryMeaning
	}
	if found.Labels != nil {
		noise := result.Float(found.Labels.Regression.Noise)
		r.By, r.Noise = "labels", &noise
		r.Meanings["supports"] += "; here f is a regression of the labels"
	}
	suspects := 0
	for _, k := range wrong.Mislabelled {
		x := &wrong.Examples[k]
		if p.Task.Classes != nil && !x.Suspect() {
			continue
		}
		if suspects++; suspects <= top {
			s := suspectRow{NamedRow: rows.Named(x.Index), LogDensity: result.Float(x.LogDensity), Supports: []supportRow{}}
			if x.Residual != nil {
				s.Residual = result.Floats(x.Residual)
			} else {
				label, of, own := classLabel(p, x.Suggested), result.Float(x.Probability[x.Suggested]), result.Float(x.Probability[x.Label])
				s.Suggested, s.SuggestedName, s.SuggestedProbability, s.LabelProbability = &label, p.NameOf(label), &of, &own
			}
			for _, v := range x.Supports {
				s.Supports = append(s.Supports, supportRow{rows.Named(v.Index), result.Float(v.Value)})
			}
			r.Mislabelled = append(r.Mislabelled, s)
		}
	}
	if p.Task.Classes != nil {
		r.Suspects = &suspects
	}
	for _, d := range found.Duplicates {
		r.Duplicates = append(r.Duplicates, duplicateRows{rows.Named(d.First), rows.Named(d.Second), result.Float(d.Correlation), d.Equal, d.Conflict})
	}
	for _, k := range found.Boundary[:min(top, len(found.Boundary))] {
		// Name the two most probable classes, the most probable first.
		x := &found.Examples[k]
		first, second := x.Suggested, -1
		for k, v := range x.Probability {
			if k != first && (second < 0 || v > x.Probability[second]) {
				second = k
			}
		}
		b := boundaryRow{NamedRow: rows.Named(x.Index), Entropy: result.Float(x.Entropy), Margin: result.Float(x.Margin)}
		for _, k := range []int{first, second} {
			label := classLabel(p, k)
			b.Between = append(b.Between, label)
			if name := p.NameOf(label); name != "" {
				b.Names = append(b.Names, name)
			}
		}
		r.Boundary = append(r.Boundary, b)
	}
	for _, k := range found.Leverage[:min(top, len(found.Leverage))] {
		x := &found.Examples[k]
		r.Leverage = append(r.Leverage, leverageRow{rows.Named(x.Index), result.Float(x.Leverage)})
	}
	return r
}

// classLabel is the label of the class of this number.
func classLabel(p *problem.Problem, k int) result.Float { return result.Float(p.Task.Classes[k]) }

// lists are the lists of the page and of the text.
func (r *auditReport) lists() []report.List {
	// Of likely mislabelled rows
	l := report.List{Title: "Likely mislabelled", Beside: "the rows that say so", Columns: []string{"suggested", "probability", "of its label", "log density"},
		Note: sentence(r.Meanings["log_density"], supportMeaning), Empty: "The other rows agree with the label of every row."}
	label, different := "label", "DIFFERENT"
	if r.Suspects == nil {
		label, different = "target", "different"
		l.Title, l.Columns, l.Beside = "Farthest from what the others predict", []string{"residual", "log density"}, "the rows that pull away"
		l.Note = sentence(r.Meanings["log_density"], residualMeaning, pullMeaning)
	} else if more := *r.Suspects - len(r.Mislabelled); more > 0 {
		l.Note = sentence(fmt.Sprintf("the first %d of %d rows whose label is not the most probable one", len(r.Mislabelled), *r.Suspects)) + " " + l.Note
	}
	if r.Noise != nil {
		l.Note += " " + sentence(fmt.Sprintf("here f is a regression of the labels, whose noise variance is %v of the mean prior variance", float64(*r.Noise)))
	}
	for i := range r.Mislabelled {
		x := &r.Mislabelled[i]
		item := report.ListItem{Row: listed(&x.NamedRow)}
		if r.Suspects == nil {
			var residuals []string
			for _, z := range x.Residual {
				residuals = append(residuals, fmt.Sprintf("%+.2f", float64(z)))
			}
			item.Values = []string{strings.Join(residuals, ", "), fmt.Sprintf("%.2f", float64(x.LogDensity))}
		} else {
			item.Values = []string{classText(x.SuggestedName, *x.Suggested), report.Probability(float64(*x.SuggestedProbability)), report.Probability(float64(*x.LabelProbability)), fmt.Sprintf("%.2f", float64(x.LogDensity))}
		}
		for k := range x.Supports {
			b := listed(&x.Supports[k].NamedRow)
			b.Value = report.Term(float64(x.Supports[k].Value), float64(x.Supports[0].Value))
			item.Beside = append(item.Beside, b)
		}
		l.Items = append(l.Items, item)
	}

	list := []report.List{l}

	// Of rows that are the same, or nearly
	l = report.List{Title: "Duplicates and near-duplicates", Beside: "the other row", Columns: []string{"correlation", "inputs", label + "s"},
		Note: sentence(duplicateMeaning), Empty: "No two rows are equal or nearly equal."}
	for i := range r.Duplicates {
		x := &r.Duplicates[i]
		inputs, labels := "nearly equal", "the same"
		if x.Equal {
			inputs = "equal"
		}
		if x.Conflict {
			labels = different
		}
		l.Items = append(l.Items, report.ListItem{Row: listed(&x.First), Values: []string{fmt.Sprintf("%.4f", float64(x.Correlation)), inputs, labels}, Beside: []report.ListedRow{listed(&x.Second)}})
	}
	list = append(list, l)
	if _, classes := r.Meanings["boundary"]; classes {
		l = report.List{Title: "Near a boundary", Columns: []string{"entropy", "margin", "between"}, Note: sentence(boundaryMeaning), Empty: "No row has a score."}
		for i := range r.Boundary {
			x := &r.Boundary[i]
			var names [2]string
			for k, v := range x.Between {
				if names[k] = classText("", v); len(x.Names) == 2 {
					names[k] = x.Names[k]
				}
			}
			l.Items = append(l.Items, report.ListItem{Row: listed(&x.NamedRow), Values: []string{fmt.Sprintf("%.3f", float64(x.Entropy)), fmt.Sprintf("%.3f", float64(x.Margin)), names[0] + " and " + names[1]}})
		}
		list = append(list, l)
	}
	l = report.List{Title: "High leverage", Columns: []string{"leverage"}, Note: sentence(fmt.Sprintf("%s: here %.1f", leverageMeaning, float64(r.Effective))), Empty: "No row has a score."}
	for i := range r.Leverage {
		x := &r.Leverage[i]
		l.Items = append(l.Items, report.ListItem{Row: listed(&x.NamedRow), Values: []string{fmt.Sprintf("%.3f", float64(x.Leverage))}})
	}
	list = append(list, l)
	for i := range list {
		list[i].Label = label
	}
	return list
}

// sentence makes sentences of notes.
func sentence(notes ...string) string {
	for i, n := range notes {
		notes[i] = strings.ToUpper(n[:1]) + n[1:] + "."
	}
	return strings.Join(notes, " ")
}

func listed(r *result.NamedRow) report.ListedRow {
	return report.ListedRow{Index: r.Index, ID: r.ID, Label: report.LabelText(r)}
}

// classText is the name of a class, or else its label.
func classText(name string, label result.Float) string {
	return cmp.Or(name, strconv.FormatFloat(float64(label), 'g', -1, 64))
}

// auditColumns are the columns of --csv, with their units. A row's residual is that of
// its target farthest from the prediction.
func auditColumns(p *problem.Problem, found *inference.Audited) []report.Column[*audit.Example] {
	type example = *audit.Example
	rows := p.TrainingRows()
	of := func(k func(x example) int) func(x example) string { // nothing in a regression
		return func(x example) string {
			if x.Probability == nil {
				return ""
			}
			return number(result.Float(x.Probability[k(x)]))
		}
	}
	// Of the posterior, NaN of rows that it did not leave out.
	own := func(score func(x example) float64) func(x example) string {
		return func(x example) string {
			if x = found.Of(x.Index); x == nil {
				return number(result.Undefined())
			}
			return number(result.Float(score(x)))
		}
	}
	return []report.Column[example]{
		{Name: "row", Value: func(x example) string { return strconv.Itoa(int(rows.Named(x.Index).Index)) }},
		{Name: "id", Value: func(x example) string { return rows.Named(x.Index).ID }},
		{Name: "label", Value: func(x example) string { r := rows.Named(x.Index); return cmp.Or(r.LabelName, number(r.Label)) }},
		{Name: "log_density_nats", Value: func(x example) string { return number(result.Float(x.LogDensity)) }},
		{Name: "suggested", Value: func(x example) string {
			if x.Probability == nil {
				return ""
			}
			k := classLabel(p, x.Suggested)
			return classText(p.NameOf(k), k)
		}},
		{Name: "suggested_probability", Value: of(func(x example) int { return x.Suggested })},
		{Name: "label_probability", Value: of(func(x example) int { return x.Label })},
		{Name: "residual_sd", Value: func(x example) string {
			largest := math.NaN()
			for _, z := range x.Residual {
				if !(math.Abs(z) <= math.Abs(largest)) {
					largest = z
				}
			}
			return number(result.Float(largest))
		}},
		{Name: "entropy_nats", Value: own(func(x example) float64 { return x.Entropy })},
		{Name: "margin", Value: own(func(x example) float64 { return x.Margin })},
		{Name: "leverage", Value: own(func(x example) float64 { return x.Leverage })},
		{Name: "equal_to_row", Value: func(x example) string {
			if x.EqualTo < 0 {
				return ""
			}
			return strconv.Itoa(int(rows.Named(x.EqualTo).Index))
		}},
	}
}
