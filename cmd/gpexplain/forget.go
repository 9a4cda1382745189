package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/cmd/gpexplain/internal/flags"
	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/console"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/linearize"
)

type forgetVerb struct {
	common flags.Common

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
	f.String("posterior", "", "forget rows of the posterior in `FILE`, which gpexplain fit wrote; needed")
	f.BoolVar(&s.inputs, "with-inputs", false, "put the training inputs that are left into the file, as where the old file has them, so that the rows can be deleted from the data too")
}

// take parses the row numbers, or takes the argument for the name of a file that lists them.
func (s *forgetVerb) take(rows string) error {
	var ok bool
	if s.rows, ok = job.ParseRows(rows, mostChanged); ok {
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
		if s.rows, err = funcgp.ReadRowNumbers(ctx, s.index); err != nil {
			return err
		}
	}
	old, err := s.common.Posterior(job.NewContext(ctx, c.Next()), nil) // whose warnings do not go into the new file
	if err != nil {
		return err
	}
	defer old.Close()
	post, err := old.WithoutRows(ctx, s.rows)
	if err != nil {
		return err
	}
	defer post.Close()
	r := &forgetReport{Schema: "funcgp/forget/1", Fit: post.Report(ctx)}
	c.Warn(r.Fit.Warnings...)
	if r.Rows, err = s.gone(ctx, old); err != nil {
		return err
	}
	// Say what each score is, its unit and its sign.
	unit := old.Unit()
	r.Meanings = map[string]string{
		"distance":                 "how far the posterior is at most from a converged fit without the rows, in prior standard deviations, no unit, not negative",
		"bound":                    fmt.Sprintf("the same for any output at a training row, in its unit: %s; not negative", unit),
		"largest_change":           fmt.Sprintf("output of the refit, before and after, in its unit: %s; after less before, by which the prediction changes, is positive where it rose", unit),
		"largest_change_forgotten": "the same at a row that was forgotten",
	}
	if err := r.prove(ctx, c, old, post); err != nil {
		return err
	}
	if r.Before, err = forgetFileOf(ctx, s.common.File, old); err != nil {
		return err
	}
	if r.Before.SHA256, err = sumOfFile(s.common.File); err != nil {
		return err
	}
	if r.After, err = forgetFileOf(ctx, s.out, post); err != nil {
		return err
	}
	if err := post.Save(ctx, s.out, &funcgp.SaveOptions{Inputs: s.inputs}); err != nil {
		return err
	}
	if r.After.SHA256, err = sumOfFile(s.out); err != nil {
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
		list = append(list, fmt.Sprintf("The %s likelihood is not concave: the posterior is at a mode without the rows, and the distance bounds nothing.", old.Info().Likelihood))
	}
	r.NotCovered = list
	r.Timings = c.Timings()
	if c.JSON {
		return json.NewEncoder(c.Out).Encode(r)
	}
	return r.text(c.Out)
}

// gone returns the rows to forget, with the checksums of their numbers.
func (s *forgetVerb) gone(ctx context.Context, old *funcgp.Posterior) ([]forgottenRow, error) {
	rows, err := old.TrainingRows(ctx, s.rows...)
	if err != nil {
		return nil, err
	}
	x, err := rows.Inputs(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]forgottenRow, rows.Len())
	for i := range list {
		list[i] = forgottenRow{Row: rows.Index(i), Inputs: sumOf(x.RawRowView(i)), InputsAndTarget: sumOf(x.RawRowView(i), rows.Targets(i))}
	}
	return list, nil
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

// A changedRow is a training row at which an output of the posterior mean changes.
type changedRow struct {
	Row    int          `json:"row"`
	Output int          `json:"output"`
	Before result.Float `json:"before"`
	After  result.Float `json:"after"`
}

// sumOf is the SHA-256 in hex of numbers as little-endian doubles.
func sumOf(parts ...[]float64) string {
	h := sha256.New()
	for _, v := range parts {
		for _, x := range v {
			// It returns no error: neither do the hash nor the conversion.
			_ = binary.Write(h, binary.LittleEndian, x)
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// sumOfFile is the SHA-256 of a file in hex.
func sumOfFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), err
}

// forgetFileOf is the file of a posterior with the checksum of its training inputs.
func forgetFileOf(ctx context.Context, path string, p *funcgp.Posterior) (forgetFile, error) {
	inputs, err := linearize.FingerprintOf(ctx, p.Dual().Data())
	if err != nil {
		return forgetFile{}, err
	}
	return forgetFile{File: path, Examples: p.Info().Examples, Inputs: hex.EncodeToString(inputs.Data.Inputs[:])}, nil
}

// prove fills in how far the posterior is from the mode without the rows (E19), and the largest changes of its mean.
func (r *forgetReport) prove(ctx context.Context, c *console.Console, before, after *funcgp.Posterior) error {
	distance, err := after.Distance(ctx)
	if err != nil {
		return err
	}
	r.Distance = result.Float(distance)
	gone := make(map[int]bool, len(r.Rows))
	for _, row := range r.Rows {
		gone[row.Row] = true
	}
	rows, err := before.TrainingRows(ctx)
	if err != nil {
		return err
	}
	outputs, largest := before.Info().Outputs, 0.0
	err = before.Dual().Data().Batches(ctx, func(first int, b *linearize.Batch) error {
		n := b.Len()
		was, is, prior := mat.NewDense(n, outputs, nil), mat.NewDense(n, outputs, nil), mat.NewDense(n*outputs, outputs, nil)
		if err := before.Dual().PredictTo(ctx, was, nil, b); err != nil {
			return err
		}
		if err := after.Dual().PredictTo(ctx, is, nil, b); err != nil {
			return err
		}
		after.Kernel().DiagTo(prior, b)
		for i := range n {
			row := rows.Index(first + i)
			to := &r.Staying
			if gone[row] {
				to = &r.Forgotten
			}
			for k := range outputs {
				largest = max(largest, prior.At(i*outputs+k, k))
				x := &changedRow{Row: row, Output: k, Before: result.Float(was.At(i, k)), After: result.Float(is.At(i, k))}
				if *to == nil || x.size() > (*to).size() {
					*to = x
				}
			}
		}
		c.Show("changes", first+n, rows.Len())
		return ctx.Err()
	})
	c.Clear()
	if err != nil {
		return err
	}
	r.PriorSD = result.Float(math.Sqrt(largest))
	if r.Bound = r.Distance * r.PriorSD; after.Info().Likelihood == "heteroscedastic" {
		r.Bound = result.Undefined()
	}
	return c.EndPart(ctx, "predict")
}

// size returns how far the mean moves.
func (x *changedRow) size() float64 { return math.Abs(float64(x.After - x.Before)) }

// text prints the proof.
func (r *forgetReport) text(out io.Writer) error {
	numbers := make([]int, len(r.Rows))
	for i, row := range r.Rows {
		numbers[i] = row.Row
	}
	return report.WriteFit(out, &r.Fit, func(w *tabwriter.Writer) {
		fmt.Fprintf(w, "forgotten\t%s: %s\n", result.Some(len(r.Rows), "training row", "training rows"), result.List(numbers))
		for _, f := range []struct {
			name string
			file *forgetFile
		}{{"before", &r.Before}, {"after", &r.After}} {
			fmt.Fprintf(w, "%s\t%s, of %s\n", f.name, f.file.File, result.Some(f.file.Examples, "training row", "training rows"))
			if f.file.SHA256 != "" {
				fmt.Fprintf(w, "\tSHA-256 of the file %s\n", f.file.SHA256)
			}
			fmt.Fprintf(w, "\tof the inputs %s\n", f.file.Inputs)
		}
		if r.Bound.Finite() {
			fmt.Fprintf(w, "distance\tno output f at a training row is farther than %.2g, in the unit of f, from a fit without them that has converged\n", float64(r.Bound))
			fmt.Fprintf(w, "\t(%.2g prior standard deviations, of which the largest is %.4g)\n", float64(r.Distance), float64(r.PriorSD))
		}
		for _, x := range []struct {
			what string
			row  *changedRow
		}{{"of the rows left", r.Staying}, {"of those forgotten", r.Forgotten}} {
			if x.row != nil {
				fmt.Fprintf(w, "largest change\t%s: row %d, output %d, mean of f from %.4g to %.4g, %+.2g\n", x.what, x.row.Row, x.row.Output, float64(x.row.Before), float64(x.row.After), float64(x.row.After-x.row.Before))
			}
		}
		fmt.Fprintf(w, "\nRows, and the SHA-256 of their inputs with the label or targets:\n")
		for _, row := range r.Rows {
			fmt.Fprintf(w, "  %d %s\n", row.Row, row.InputsAndTarget)
		}
		fmt.Fprintf(w, "\nNot covered:\n")
		for _, text := range r.NotCovered {
			fmt.Fprintf(w, "- %s\n", text)
		}
	})
}
