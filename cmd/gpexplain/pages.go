package main

import (
	"context"
	"io"
	"math"
	"strings"

	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/atomicfile"
	"github.com/funcgp/funcgp/internal/console"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/internal/problem"
)

// severalOf are the targets of row i of a subset where it has several, else nil.
func severalOf(rows *dataset.Subset, i int) []result.Float {
	width := rows.Set.Width()
	if width < 2 {
		return nil
	}
	return result.Floats(rows.Targets[i*width : (i+1)*width])
}

// spread are the standard deviations of the features over the training rows, in the
// units of the data; nil for images.
func spread(ctx context.Context, p *problem.Problem) ([]float64, error) {
	if p.Examples.Data.Images() {
		return nil, nil
	}
	train := p.Examples.Train
	n, d := train.Len(), len(p.Examples.Data.Columns)
	mean, square := make([]float64, d), make([]float64, d)
	seen := 0.0
	for t := range par.Tiles(n, problem.PredictRows) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		lo, hi := par.Bounds(t, n, problem.PredictRows)
		x, err := train.Set.Read(ctx, train.Pos[lo:hi])
		if err != nil {
			return nil, err
		}
		for i := range hi - lo {
			seen++
			for j, v := range x.RawRowView(i) {
				// Welford's running mean and sum of squares
				delta := v - mean[j]
				mean[j] += delta / seen
				square[j] += delta * (v - mean[j])
			}
		}
	}
	for j := range square {
		square[j] = math.Sqrt(square[j] / seen)
	}
	return square, nil
}

// origin says from what an answer is made, with the checksums of whole files, and for a page how well the network
// predicts the test rows and whether their pictures are of ink.
func origin(ctx context.Context, c *console.Console, p *problem.Problem, page bool) (o report.Origin, err error) {
	o.Model, o.Data = p.Model.Name, p.Examples.Data.Source
	if o.Record, err = p.Record(ctx, "gpexplain "+programVersion()); err != nil {
		return o, err
	}
	o.Record.Command = job.CommandLine(c.Args)
	if !page {
		return o, nil
	}
	if o.Record.Test, err = testScores(ctx, p); err != nil {
		return o, err
	}
	o.Invert, err = p.Examples.Grey(ctx)
	return o, err
}

// mostTestRows is the largest number of test rows that a page's scores are of.
const mostTestRows = 10_000

// testScores are the scores of the network alone on the first test rows; nil where there
// are none, or none with a label.
func testScores(ctx context.Context, p *problem.Problem) (*result.TestScores, error) {
	if p.Examples.TestPart().Len() == 0 {
		return nil, nil
	}
	rows, err := p.Examples.Test(dataset.SelectOptions{})
	if err != nil || rows.Targets == nil || rows.Len() == 0 {
		return nil, nil // no row of these classes is labelled
	}
	if rows.Len() > mostTestRows {
		if rows, err = p.Examples.Test(dataset.SelectOptions{Count: mostTestRows}); err != nil {
			return nil, err
		}
	}
	y, err := p.Targets(rows)
	if err != nil {
		return nil, nil // targets that the likelihood does not take are no scores
	}
	s := &result.TestScores{Rows: rows.Len(), RMSE: result.Undefined()}
	if s.Accuracy, s.NLL, err = p.Model.Score(ctx, p, rows, y); err != nil || p.Task.Classes != nil {
		return s, err
	}
	// The root mean square of the distances between targets and what the network alone expects.
	square, expected := 0.0, make([]float64, p.Model.Outputs)
	for t := range par.Tiles(rows.Len(), problem.PredictRows) {
		lo, hi := par.Bounds(t, rows.Len(), problem.PredictRows)
		x, err := p.Examples.Inputs(ctx, rows, lo, hi)
		if err != nil {
			return nil, err
		}
		f, err := p.Model.Net.Forward(ctx, x)
		if err != nil {
			return nil, problem.NamesOf(rows, lo, hi).ExplainError(err)
		}
		for i := range hi - lo {
			p.Task.Likelihood.MeanTo(expected, f.RawRowView(i))
			for c, v := range y.RawRowView(lo + i) {
				square += (v - expected[c]) * (v - expected[c])
			}
		}
	}
	_, targets := y.Dims()
	s.RMSE = result.Float(math.Sqrt(square / float64(rows.Len()*targets)))
	return s, nil
}

// writePage writes a page to a file, "" for none, and fails where a picture in it could not be read.
func writePage(c *console.Console, path string, write func(w io.Writer) error, unread *error) error {
	return writeFile(c, path, func(w io.Writer) error {
		if err := write(w); err != nil {
			return err
		}
		return *unread
	})
}

// writeFile writes a file, "" for none, and says so.
func writeFile(c *console.Console, path string, write func(w io.Writer) error) error {
	if path == "" {
		return nil
	}
	err := atomicfile.Write(path, write)
	if err == nil {
		c.Detail("wrote %s", path)
	}
	return err
}

// tabulate calls do with what adds a row to the table at path, "" for none, which replaces the file once do has
// ended without error.
func tabulate[T any](c *console.Console, path string, columns []report.Column[T], do func(add func(row T) error) error) error {
	if path == "" {
		return do(func(T) error { return nil })
	}
	return writeFile(c, path, func(w io.Writer) error {
		t, err := report.NewCSV(w, columns)
		if err != nil {
			return err
		}
		if err := do(t.Write); err != nil {
			return err
		}
		return t.Flush()
	})
}

// programVersion is the version of the module, with the revision if it is known.
func programVersion() string {
	v := version()
	text, revision := v["version"], v["revision"]
	if revision = revision[:min(12, len(revision))]; !strings.Contains(text, revision) {
		text += ", revision " + revision
	}
	return text
}
