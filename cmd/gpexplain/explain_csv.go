package main

import (
	"cmp"
	"encoding/csv"
	"io"
	"strconv"

	"github.com/funcgp/funcgp/cmd/gpexplain/internal/console"
	"github.com/funcgp/funcgp/cmd/gpexplain/internal/problem"
	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/internal/atomicfile"
)

// termTable is the table of --csv: one line for each listed term of each output and
// contrast of each row. A nil table takes nothing.
type termTable struct{ w *csv.Writer }

// termColumns are the columns of the table. output is the class or the number of
// the output, against that which a contrast subtracts. sd is the error bar of value, over
// labels drawn anew; of the mean of several networks networks_sd and networks_se are, over
// networks. The unit of numbers is that of f, but of similarity.
var termColumns = []string{"row", "id", "output", "against", "train_row", "train_id", "label", "value", "raw", "similarity", "removal",
	"sd", "networks_sd", "networks_se", "distinguishable"}

// tabulate calls do with the table of --csv, which replaces the file once do has
// ended without error.
func (s *explainVerb) tabulate(c *console.Console, do func(table *termTable) error) error {
	if s.csv == "" {
		return do(nil)
	}
	err := atomicfile.Write(s.csv, func(w io.Writer) error {
		t := &termTable{csv.NewWriter(w)}
		t.w.UseCRLF = true // RFC 4180
		if err := t.w.Write(termColumns); err != nil {
			return err
		}
		if err := do(t); err != nil {
			return err
		}
		t.w.Flush()
		return t.w.Error()
	})
	if err == nil {
		c.Detail("wrote %s", s.csv)
	}
	return err
}

// add writes the terms of a report.
func (t *termTable) add(p *problem.Problem, r *report.Report) error {
	if t == nil {
		return nil
	}
	row := cmp.Or(r.Input.File, strconv.Itoa(int(r.Input.Index)))
	if r.Input.Index >= 0 {
		row = strconv.Itoa(int(r.Input.Index))
	}
	names := classNames(p)
	output := func(k int) string {
		if len(names) > p.Model.Outputs { // one output speaks for the second class
			return names[1]
		} else if names = append(names, columns(p)...); names != nil {
			return names[k]
		}
		return strconv.Itoa(k)
	}
	for i := range r.Outputs {
		o := &r.Outputs[i]
		name, against := "", ""
		if o.Contrast == nil {
			name = output(int(o.Output))
		} else {
			name, against = output(o.Contrast.Plus), output(o.Contrast.Minus)
		}
		for k := range o.Contributions {
			v := &o.Contributions[k]
			line := []string{row, r.Input.ID, name, against, strconv.Itoa(int(v.Index)), v.ID, cmp.Or(v.LabelName, number(v.Label)),
				number(v.Value), number(v.Raw), number(v.Similarity), number(v.Removal)}
			line = append(line, errorBars(v)...)
			if err := t.w.Write(line); err != nil {
				return err
			}
		}
	}
	return nil
}

// errorBars are the last columns of a line.
func errorBars(v *report.Contribution) []string {
	switch {
	case v.Networks != nil:
		n := v.Networks
		return []string{"", number(n.Value.SD), number(n.Value.SE), strconv.FormatBool(n.Distinguishable)}
	case v.SD != nil:
		return []string{number(*v.SD), "", "", strconv.FormatBool(*v.Distinguishable)}
	}
	return []string{"", "", "", ""}
}

// number writes a number exactly, and what is undefined as nothing.
func number(v report.Float) string {
	if !v.Finite() {
		return ""
	}
	return strconv.FormatFloat(float64(v), 'g', -1, 64)
}
