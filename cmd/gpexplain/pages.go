package main

import (
	"context"
	"encoding/json"
	"io"
	"strings"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/atomicfile"
	"github.com/funcgp/funcgp/internal/console"
	"github.com/funcgp/funcgp/internal/job"
)

// originOf returns the origin of an answer. For a page it includes how well the network predicts the test rows,
// and whether pictures are shown as ink.
func originOf(ctx context.Context, c *console.Console, p *funcgp.Posterior, page bool) (o result.Origin, err error) {
	switch {
	case page:
		o, err = p.Origin(ctx)
	case c.JSON:
		o.Record, err = p.Record(ctx)
	default:
		return o, nil // text has no record
	}
	o.Record.Version, o.Record.Command = "gpexplain "+programVersion(), job.CommandLine(c.Args)
	return o, err
}

// A page shows an answer to people.
type page interface {
	WriteHTML(w io.Writer) error
	WriteText(w io.Writer, columns int) error
}

// show writes an answer as a page to a file, unless path is "", and then as JSON or text to standard output,
// whose timings so include the page. It fails if a picture on the page could not be read. fit and timings point
// to fields of the answer; show sets the timings.
func show(c *console.Console, path string, p page, unread *error, fit *result.Fit, timings *result.Timings, answer any) error {
	*timings = c.TimingsSoFar()
	if err := writePage(c, path, p, unread); err != nil {
		return err
	}
	*timings = c.Timings()
	if c.JSON {
		if own, ok := answer.(interface{ WriteJSON(w io.Writer) error }); ok {
			return own.WriteJSON(c.Out)
		}
		return json.NewEncoder(c.Out).Encode(answer)
	}
	noteTuning(c, fit)
	return p.WriteText(c.Out, c.Out.Columns())
}

// noteTuning notes how --tune-prior chose the precision, if it was given. The note comes before the text of the
// result.
func noteTuning(c *console.Console, f *result.Fit) {
	if f.Tuning != nil {
		c.Note("prior precision %s", report.TuningText(f))
	}
}

// writePage writes a page to a file, "" for none, and fails where a picture in it could not be read.
func writePage(c *console.Console, path string, p page, unread *error) error {
	return writeFile(c, path, func(w io.Writer) error {
		if err := p.WriteHTML(w); err != nil {
			return err
		}
		return *unread
	})
}

// writeFile writes a file, unless path is "", and notes that it did.
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

// tabulate calls do with a function add that appends a row to the table at path. The new table replaces the
// file once do has ended without error. If path is "", add does nothing.
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
