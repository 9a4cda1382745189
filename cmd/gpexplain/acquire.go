package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/funcgp/funcgp/cmd/gpexplain/internal/flags"
	"github.com/funcgp/funcgp/explain/audit"
	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/console"
	"github.com/funcgp/funcgp/internal/inference"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/problem"
)

type acquireVerb struct {
	common    problem.Flags
	posterior inference.Flags

	pool, csv  string
	top, batch int
}

func acquireCommand(con *console.Console) *cobra.Command {
	s := &acquireVerb{}
	v := &verb{
		name:  "acquire",
		short: "Rank unlabelled rows by what a label would tell",
		long: `Acquire ranks the rows of a pool by their expected information gain: how much a
label of the row would tell about the function. With --batch it chooses rows whose
labels tell much together, one after the other, each given the labels of those before.
Labels of the pool are not used.`,
		example: `  gpexplain acquire --train-count 60 --pool digits:400,100 --data digits:400,100 --batch 5
  gpexplain fit --train-count 60 -o digits.gp
  gpexplain acquire --posterior digits.gp --pool digits:400,100 --top 50 --csv ranking.csv`,
		flags: s.add, run: s.run, writes: []string{"csv"}, reads: []string{"pool"},
		rules: []flags.Rule{
			flags.Needed("pool", "the rows that a label may be asked for"),
			flags.AtLeast(1, "top"),
			flags.AtLeast(0, "batch"),
		},
	}
	return v.command(con, &s.common)
}

func (s *acquireVerb) add(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&s.pool, "pool", "", "rank the rows of `DATA`: a table, NumPy's arrays, pictures or a folder of them, as --input of predict takes, or the training rows of digits, mnist or a folder of IDX files but those of the posterior; needed")
	f.IntVar(&s.top, "top", 20, "list the first `K` rows")
	f.IntVar(&s.batch, "batch", 0, "choose a batch of `B` rows; 0 for none")
	f.StringVar(&s.csv, "csv", "", "write the scores of all rows as a table to `FILE`")
	flags.Method(c, &s.posterior)
	flags.Answer(c, &s.posterior)
	flags.Tune(c, &s.posterior)
	flags.Posterior(c, &s.posterior)
}

func (s *acquireVerb) run(ctx context.Context, c *console.Console) error {
	p, err := problem.Open(ctx, c.Job, &s.common, s.posterior.File)
	if err != nil {
		return err
	}
	pool, err := p.Pool(ctx, c.Job, s.pool)
	if err != nil {
		return err
	}
	if s.batch > pool.Len() {
		return fmt.Errorf("--batch %d: --pool %s has %d rows; give at most that many", s.batch, s.pool, pool.Len())
	}
	if p, pool.Subset, err = p.GroupedFor(ctx, c.Job, pool.Subset); err != nil {
		return err
	}
	q, err := inference.Answer(ctx, c.Job, p, &s.posterior, "")
	if err != nil {
		return err
	}
	found, err := q.Acquire(ctx, c.Job, p, p.Examples.Source(ctx, p.Model, pool.Subset), s.batch, problem.NamesOf(pool.Subset, 0, pool.Len()))
	if err != nil {
		return err
	}
	top := s.top
	r := &acquireReport{Schema: "funcgp/acquire/1", Meanings: map[string]string{"information": informationMeaning, "gain": gainMeaning}, Pool: len(found.Pool), Ranking: []acquiredRow{}, Batch: []chosenRow{}}
	for _, t := range found.Ranking[:min(top, len(found.Ranking))] {
		r.Ranking = append(r.Ranking, acquired(p, pool, &found.Pool[t]))
	}
	for _, x := range found.Batch {
		row := acquired(p, pool, &found.Pool[x.Index])
		r.Batch = append(r.Batch, chosenRow{row.Index, row.ID, row.Class, row.ClassName, result.Float(x.Gain), result.Float(x.Total)})
	}
	r.Fit = q.Report(p, c.Warnings)
	if err := c.EndPart(ctx, "predict"); err != nil {
		return err
	}
	if err := tabulate(c, s.csv, acquireColumns(p, pool, found), func(add func(t int) error) error {
		for _, t := range found.Ranking {
			if err := add(t); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	r.Timings = c.Timings()
	if c.JSON {
		return json.NewEncoder(c.Out).Encode(r)
	}
	console.NoteTuning(c.Job, &r.Fit)
	return (&report.ListPage{Lists: r.lists(), Fit: &r.Fit}).WriteText(c.Out, c.Out.Columns())
}

// The lines that say what the scores are, on every output.
const (
	informationMeaning = "information: expected information gain, the mutual information of the row's label and the function, in nats, at least 0: the more, the more a label would tell"
	gainMeaning        = "gain: ½ log det(I + RᵀCR), in nats, at least 0: what a label tells to second order; in a batch, what it adds to the labels of the rows chosen before"
)

// acquireReport is the JSON of acquire.
type acquireReport struct {
	Schema   string            `json:"schema"`
	Meanings map[string]string `json:"meanings"`
	Pool     int               `json:"pool"`
	Ranking  []acquiredRow     `json:"ranking"`
	Batch    []chosenRow       `json:"batch"`
	Fit      result.Fit        `json:"fit"`
	Timings  result.Timings    `json:"timings"`
}

type acquiredRow struct {
	Index       result.Index   `json:"index"`
	ID          string         `json:"id,omitempty"`
	Information result.Float   `json:"information"`
	Gain        result.Float   `json:"gain"`
	Class       result.Float   `json:"class"`
	ClassName   string         `json:"class_name,omitempty"`
	Mean        []result.Float `json:"mean"`
}

type chosenRow struct {
	Index     result.Index `json:"index"`
	ID        string       `json:"id,omitempty"`
	Class     result.Float `json:"class"`
	ClassName string       `json:"class_name,omitempty"`
	Gain      result.Float `json:"gain"`
	Total     result.Float `json:"total"`
}

// acquired is a row of the pool with the class of the largest mean.
func acquired(p *problem.Problem, pool *problem.Asked, x *audit.Candidate) acquiredRow {
	class := p.Task.Class(x.Mean)
	return acquiredRow{Index: result.Index(pool.Rows[x.Index]), ID: problem.IDOf(pool.Subset, x.Index), Information: result.Float(x.Information), Gain: result.Float(x.Gain),
		Class: class, ClassName: p.NameOf(class), Mean: result.Floats(x.Mean)}
}

// lists are the ranking and the batch for a terminal.
func (r *acquireReport) lists() []report.List {
	item := func(index result.Index, id, name string, class result.Float, values ...string) report.ListItem {
		x := report.ListItem{Row: report.ListedRow{Index: index, ID: id}, Values: values}
		if class.Finite() {
			x.Row.Label = classText(name, class)
		}
		return x
	}
	ranking := report.List{Title: fmt.Sprintf("The first %s of %s rows", job.Count(len(r.Ranking)), job.Count(r.Pool)), Label: "predicted", Columns: []string{"information", "gain"},
		Note: sentence(informationMeaning, gainMeaning), Empty: "No row has a score."}
	for _, x := range r.Ranking {
		ranking.Items = append(ranking.Items, item(x.Index, x.ID, x.ClassName, x.Class, fmt.Sprintf("%.4g", float64(x.Information)), fmt.Sprintf("%.4g", float64(x.Gain))))
	}
	if len(r.Batch) == 0 {
		return []report.List{ranking}
	}
	batch := report.List{Title: "The batch", Label: "predicted", Columns: []string{"gain", "together"}, Note: sentence(gainMeaning)}
	for _, x := range r.Batch {
		batch.Items = append(batch.Items, item(x.Index, x.ID, x.ClassName, x.Class, fmt.Sprintf("%.4g", float64(x.Gain)), fmt.Sprintf("%.4g", float64(x.Total))))
	}
	return []report.List{ranking, batch}
}

// acquireColumns are the columns of --csv, with their units, of rows of the pool. batch is the place
// in the batch, from 1.
func acquireColumns(p *problem.Problem, pool *problem.Asked, found *audit.Acquisition) []report.Column[int] {
	place := func(t int) int {
		return slices.IndexFunc(found.Batch, func(x audit.Chosen) bool { return x.Index == t })
	}
	row := func(t int) acquiredRow { return acquired(p, pool, &found.Pool[t]) }
	return []report.Column[int]{
		{Name: "row", Value: func(t int) string { return strconv.Itoa(int(row(t).Index)) }},
		{Name: "id", Value: func(t int) string { return row(t).ID }},
		{Name: "predicted", Value: func(t int) string {
			x := row(t)
			if !x.Class.Finite() {
				return ""
			}
			return classText(x.ClassName, x.Class)
		}},
		{Name: "information_nats", Value: func(t int) string { return number(row(t).Information) }},
		{Name: "gain_nats", Value: func(t int) string { return number(row(t).Gain) }},
		{Name: "batch", Value: func(t int) string {
			if k := place(t); k >= 0 {
				return strconv.Itoa(k + 1)
			}
			return ""
		}},
		{Name: "batch_gain_nats", Value: func(t int) string {
			if k := place(t); k >= 0 {
				return number(result.Float(found.Batch[k].Gain))
			}
			return ""
		}},
	}
}
