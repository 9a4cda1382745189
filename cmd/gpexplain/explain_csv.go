package main

import (
	"cmp"
	"strconv"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/explain/result"
)

// A term is a line of the table of --csv: a listed term of an output or contrast of a row. output is the class
// or the number of the output, and against is what a contrast subtracts.
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

// terms passes on the terms of an explanation.
func terms(x *funcgp.Explanation, add func(*term) error) error {
	row := x.Input.File
	if x.Input.Index >= 0 {
		row = strconv.Itoa(int(x.Input.Index))
	}
	for i := range x.Outputs {
		o := &x.Outputs[i]
		t := term{row: row, rowID: x.Input.ID, output: o.Name}
		if o.Contrast != nil {
			t.against = o.Other
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

// number formats a number exactly, and an undefined number as the empty string.
func number(v result.Float) string {
	if !v.Finite() {
		return ""
	}
	return strconv.FormatFloat(float64(v), 'g', -1, 64)
}
