package main

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/problem"
)

// A term is a line of the table of --csv: a listed term of an output or contrast of a row. output is the
// class or the number of the output, against that which a contrast subtracts.
type term struct {
	*result.Contribution
	row, rowID, output, against string
}

// termColumns are the columns of the table. sd is the error bar of value, over
// labels drawn anew; of the mean of several networks networks_sd and networks_se are, over
// networks. Numbers are in the unit of f; similarity has none.
var termColumns = []report.Column[*term]{
	{Name: "row", Value: func(t *term) string { return t.row }},
	{Name: "id", Value: func(t *term) string { return t.rowID }},
	{Name: "output", Value: func(t *term) string { return t.output }},
	{Name: "against", Value: func(t *term) string { return t.against }},
	{Name: "train_row", Value: func(t *term) string { return strconv.Itoa(int(t.Index)) }},
	{Name: "train_id", Value: func(t *term) string { return t.ID }},
	{Name: "label", Value: func(t *term) string { return cmp.Or(t.LabelName, number(t.Label)) }},
	{Name: "value", Value: func(t *term) string { return number(t.Contribution.Value) }},
	{Name: "raw", Value: func(t *term) string { return number(t.Raw) }},
	{Name: "similarity", Value: func(t *term) string { return number(t.Similarity) }},
	{Name: "removal", Value: func(t *term) string { return number(t.Removal) }},
	{Name: "influence", Value: func(t *term) string {
		if t.Influence == nil {
			return ""
		}
		return number(*t.Influence)
	}},
	{Name: "sd", Value: func(t *term) string {
		if t.Networks != nil || t.SD == nil {
			return ""
		}
		return number(*t.SD)
	}},
	{Name: "networks_sd", Value: func(t *term) string { return t.overNetworks(func(n result.Spread) result.Float { return n.SD }) }},
	{Name: "networks_se", Value: func(t *term) string { return t.overNetworks(func(n result.Spread) result.Float { return n.SE }) }},
	{Name: "distinguishable", Value: func(t *term) string {
		switch {
		case t.Networks != nil:
			return strconv.FormatBool(t.Networks.Distinguishable)
		case t.SD != nil:
			return strconv.FormatBool(*t.Distinguishable)
		}
		return ""
	}},
}

func (t *term) overNetworks(of func(n result.Spread) result.Float) string {
	if t.Networks == nil {
		return ""
	}
	return number(of(t.Networks.Value))
}

// terms passes on the terms of a report.
func terms(p *problem.Problem, r *result.Report, add func(*term) error) error {
	row := cmp.Or(r.Input.File, strconv.Itoa(int(r.Input.Index)))
	if r.Input.Index >= 0 {
		row = strconv.Itoa(int(r.Input.Index))
	}
	names := p.Task.ClassNames()
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
		t := term{row: row, rowID: r.Input.ID}
		if o.Contrast == nil {
			t.output = output(int(o.Output))
		} else {
			t.output, t.against = output(o.Contrast.Plus), output(o.Contrast.Minus)
		}
		for k := range o.Contributions {
			t.Contribution = &o.Contributions[k]
			if err := add(&t); err != nil {
				return err
			}
		}
	}
	return nil
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
	unit := p.Unit()
	m := map[string]string{
		"value":      fmt.Sprintf("what the training row adds to the output, in its unit: %s; a positive one raises the output. Go by it for the rows that hold the prediction together", unit),
		"raw":        "the same in the prior kernel, where the terms of different explained rows are much alike; unit and sign of value",
		"removal":    "the output without the training row less the output with it, to first order, in the unit of value; a positive one says that the output would rise. Go by it for a single row, and for many at once by influence (--influence)",
		"similarity": "posterior correlation of the output at the training row and at the explained one, no unit, from −1 to 1; where negative, what raises the one lowers the other",
	}
	if problem.HasClasses(p.Task.Likelihood) {
		m["value"] += ": trained again without those of the largest values, a network changes most"
	} else {
		m["value"] += "; what networks become that are trained without rows it does not foretell in a regression: for that go by removal"
	}
	if len(s.sources) > 1 {
		m["networks"] = "sd is the standard deviation of one network's number and se the standard error of the mean over the networks, both in the unit of the number and not negative"
	} else {
		m["sd"] = "how much value would vary had the label of the training row been drawn anew, a standard deviation in the unit of value, not negative"
		m["variance_reduction"] = "what the training row takes off the variance of the output, the square of sd, in the squared unit of value, not negative"
	}
	if s.influence {
		m["influence"] = "the output with the training row less without it, the other rows at half of their weight, to first order, in the unit of value; a positive one raises the output. Go by its sums for what many rows do together"
	}
	if s.byLayer {
		m["layers"] = "what comes through the parameters of each layer, in the unit and with the sign of value"
	}
	if flag := strings.ReplaceAll(strings.TrimPrefix(s.change.flag(), "--"), "-", "_"); flag != "" {
		m[flag] = fmt.Sprintf("mean is each output plus what the refit changes by with the changed training data, in its unit: %s; less prediction.mean it is what the change does, positive where the output rises; probability has no unit", unit)
	}
	return m
}
