package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/funcgp/funcgp/cmd/gpexplain/internal/flags"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/console"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/inference"
	"github.com/funcgp/funcgp/internal/inputfile"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/problem"
)

type forgetVerb struct {
	common    problem.Flags
	posterior inference.Flags

	rows   []int  // of the original file
	index  string // a file with them; "" for none
	out    string
	inputs bool
}

func forgetCommand(con *console.Console) *cobra.Command {
	s := &forgetVerb{}
	v := &verb{
		name:  "forget",
		short: "Write a posterior without some training rows, with a proof",
		long: `Forget fits the posterior of a file again without the training ROWS, a list such as
12 or 12,99,200-210 or an index file with one row number a line, and writes it to another
file. Of a posterior that was fitted with --refit nothing of these rows is left there. It
says what proves that: checksums of the rows, of both files and of the inputs of both, how
far the new posterior can be from the mode without these rows, and the largest change of a
prediction.

It also says what is not covered: the network was trained on these rows, and copies of
the data and of the old file are not touched. Keep the proof with --json.

Without --refit the new mean is the network's own output plus what the refit changes by, for
which the new file keeps the parameters of the refit to all rows.`,
		example: `  gpexplain fit --refit -o digits.gp
  gpexplain forget 1,18 --posterior digits.gp -o fewer.gp
  gpexplain forget wrong.txt --posterior digits.gp -o fewer.gp --json`,
		flags: s.add, run: s.run, writes: []string{"out"}, operand: "ROWS", take: s.take,
		rules: []flags.Rule{
			flags.Needed("posterior", "the posterior that is to forget rows"),
			flags.Needed("out", "where to write the posterior without the rows"),
		},
	}
	return v.command(con, &s.common)
}

func (s *forgetVerb) add(c *cobra.Command) {
	f := c.Flags()
	f.StringVarP(&s.out, "out", "o", "", "write the posterior without the rows to `FILE`; needed")
	f.StringVar(&s.posterior.File, "posterior", "", "forget rows of the posterior in `FILE`, which gpexplain fit wrote; needed")
	f.BoolVar(&s.inputs, "with-inputs", false, "put the training inputs that are left into the file, as where the old file has them, so that the rows can be deleted from the data too")
}

// take reads the rows, or takes them for the name of a file.
func (s *forgetVerb) take(rows string) error {
	var ok bool
	if s.rows, ok = problem.ParseRows(rows, mostChanged); ok {
		return onlyOnce("", s.rows)
	}
	if strings.Trim(rows, "0123456789,- ") == "" {
		return job.Usagef("%q must list training rows such as 12 or 12,99,200-210, or be an index file", rows)
	}
	s.index = rows
	return nil
}

func (s *forgetVerb) run(ctx context.Context, c *console.Console) error {
	if s.index != "" {
		var err error
		if s.rows, err = dataset.ReadRows(ctx, s.index); err != nil {
			return err
		}
	}
	old, err := problem.Open(ctx, c.Job, &s.common, s.posterior.File)
	if err != nil {
		return err
	}
	p, err := old.WithoutRows("forget", s.rows)
	if err != nil {
		return err
	}
	q, err := inference.FitAgain(ctx, c.Job, old, p, "forget", "")
	if err != nil {
		return err
	}
	// Warnings of the old file come later and do not go into the new one.
	// The checksums of training rows of the original file, which exist.
	rows := s.rows
	train := old.Examples.Train
	at := make(map[int]int, train.Len())
	for i, row := range train.Rows {
		at[row] = i
	}
	gone := make([]forgottenRow, len(rows))
	for k, row := range rows {
		i := at[row]
		in, err := train.Set.Read(ctx, train.Pos[i:i+1])
		if err != nil {
			return err
		}
		x := in.RawRowView(0)
		y := []float64{problem.Label(train, i)}
		if w := train.Set.Width(); train.Labels == nil && w > 1 {
			y = train.Targets[i*w : (i+1)*w]
		}
		gone[k] = forgottenRow{Row: row, Inputs: sumOf(x), InputsAndTarget: sumOf(x, y)}
	}
	r := &forgetReport{Schema: "funcgp/forget/1", Meanings: forgetMeanings(p), Rows: gone, Fit: q.Report(p, slices.Clone(c.Warnings))}
	before, err := inference.Answer(ctx, c.Job, old, &s.posterior, "")
	if err != nil {
		return err
	}
	if err := r.prove(ctx, c, old, p, before, q); err != nil {
		return err
	}
	if r.Before, err = forgetFileOf(ctx, s.posterior.File, old, before); err != nil {
		return err
	}
	if r.Before.SHA256, err = inputfile.Sum(ctx, s.posterior.File); err != nil {
		return err
	}
	if r.After, err = forgetFileOf(ctx, s.out, p, q); err != nil {
		return err
	}
	if err := q.Save(ctx, s.out, p, r.Fit, inference.SaveOptions{Inputs: s.inputs || old.Saved.Header.Inputs, Split: s.common.Data.Split}); err != nil {
		return err
	}
	// The file is there: its checksum, which is quick, is not broken off.
	if r.After.SHA256, err = inputfile.Sum(context.WithoutCancel(ctx), s.out); err != nil {
		return err
	}
	// Say what else may know the rows.
	list := []string{
		"The trained parameters of the network have seen these rows, and with them the prior mean and the features: only training it again without them takes that away.",
		"The prior, the noise variance and the scaling of inputs and targets are those of the old file. Where they were chosen or computed from the training rows, they have seen these too.",
	}
	switch {
	case r.Fit.Calibration == nil:
		list = append(list, "Neither file is calibrated; whatever was calibrated on the old one has seen these rows.")
	default:
		list = append(list, "The calibration was computed anew without these rows. Predictions, explanations and scores that the old file gave are not changed.")
	}
	if !r.Fit.Refit {
		list = append(list, "The mean is the network's own output plus what the refit changes by. The new file holds the parameters of the refit to all rows, which these rows had a part in; the file of a posterior that was fitted with --refit does not.")
	}
	list = append(list,
		"Copies of the data and of the old file are not touched: delete them yourself. The new file names the data file and holds its checksum, and the numbers of the rows that are left tell which are not.",
		"The checksums tell the rows to whoever has them, and to whoever can guess all of their numbers.")
	if !r.Bound.Finite() {
		list = append(list, fmt.Sprintf("The %s likelihood is not concave: the posterior is at a mode without the rows, and the distance bounds nothing.", old.Task.Likelihood.Name()))
	}
	r.NotCovered = list
	r.Timings = c.Timings()
	if c.JSON {
		return json.NewEncoder(c.Out).Encode(r)
	}
	return r.text(c.Out)
}

// A forgetReport is what forget prints with --json.
type forgetReport struct {
	Schema     string            `json:"schema"`
	Meanings   map[string]string `json:"meanings"`
	Rows       []forgottenRow    `json:"rows"`
	Before     forgetFile        `json:"before"`
	After      forgetFile        `json:"after"`
	Distance   result.Float      `json:"distance"`
	PriorSD    result.Float      `json:"prior_sd"`
	Bound      result.Float      `json:"bound"`
	Staying    *changedRow       `json:"largest_change"`
	Forgotten  *changedRow       `json:"largest_change_forgotten"`
	NotCovered []string          `json:"not_covered"`
	Fit        result.Fit        `json:"fit"`
	Timings    result.Timings    `json:"timings"`
}

// A forgottenRow is a training row that the new posterior does not have, with SHA-256
// checksums in hex.
type forgottenRow struct {
	Row             int    `json:"row"`
	Inputs          string `json:"inputs"`
	InputsAndTarget string `json:"inputs_and_target"`
}

// A forgetFile is the file of a posterior.
type forgetFile struct {
	File     string `json:"file"`
	SHA256   string `json:"sha256"`
	Examples int    `json:"examples"`
	Inputs   string `json:"inputs"`
}

// A changedRow is a training row of which an output of the posterior mean changes.
type changedRow struct {
	Row    int          `json:"row"`
	Output int          `json:"output"`
	Before result.Float `json:"before"`
	After  result.Float `json:"after"`
}
