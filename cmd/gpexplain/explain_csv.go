package main

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/atomicfile"
	"github.com/funcgp/funcgp/internal/console"
	"github.com/funcgp/funcgp/internal/problem"
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
func (t *termTable) add(p *problem.Problem, r *result.Report) error {
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
		} else if names = append(names, p.OutputNames()...); names != nil {
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
func errorBars(v *result.Contribution) []string {
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
func number(v result.Float) string {
	if !v.Finite() {
		return ""
	}
	return strconv.FormatFloat(float64(v), 'g', -1, 64)
}

// meanings say what each score of the JSON is, its unit and its sign.
func (s *explainVerb) meanings(p *problem.Problem) map[string]string {
	unit := unitOf(p)
	m := map[string]string{
		"value":      fmt.Sprintf("what the training row adds to the output, in its unit: %s; a positive one raises the output. Go by it for the rows that hold the prediction together: trained again without those of the largest values, a network changes most", unit),
		"raw":        "the same in the prior kernel, where the terms of different explained rows are much alike; unit and sign of value",
		"removal":    "the output without the training row less the output with it, to first order, in the unit of value; a positive one says that the output would rise. Go by it for a single row, and for many at once at eight times the precision of the match (--prior-precision)",
		"similarity": "posterior correlation of the output at the training row and at the explained one, no unit, from −1 to 1; where negative, what raises the one lowers the other",
	}
	if len(s.sources) > 1 {
		m["networks"] = "sd is the standard deviation of one network's number and se the standard error of the mean over the networks, both in the unit of the number and not negative"
	} else {
		m["sd"] = "how much value would vary had the label of the training row been drawn anew, a standard deviation in the unit of value, not negative"
		m["variance_reduction"] = "what the training row takes off the variance of the output, the square of sd, in the squared unit of value, not negative"
	}
	if s.byLayer {
		m["layers"] = "what comes through the parameters of each layer, in the unit and with the sign of value"
	}
	if flag := strings.ReplaceAll(strings.TrimPrefix(s.change.flag(), "--"), "-", "_"); flag != "" {
		m[flag] = fmt.Sprintf("mean is each output plus what the refit changes by with the changed training data, in its unit: %s; less prediction.mean it is what the change does, positive where the output rises; probability has no unit", unit)
	}
	return m
}

// unitOf names the unit of an output in words.
func unitOf(p *problem.Problem) string {
	names := classNames(p)
	switch {
	case problem.HasLogVariances(p.Task.Likelihood):
		return "that of the target for a mean, and the logarithm of its square for a noise variance"
	case names == nil && p.Task.Quantity("") == "log rate":
		return "the natural logarithm of the rate"
	case names == nil:
		return "that of the target"
	case p.Model.Outputs == 1:
		return fmt.Sprintf("log-odds of %s against %s, in nats", names[1], names[0])
	}
	return "logits in nats, and for a contrast the log-odds of its two classes"
}
