package main

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/funcgp/funcgp/explain/audit"
	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/problem"
)

// lists are those of the page and of the text.
func (r *auditReport) lists() []report.List {
	list := []report.List{r.mislabelled(), r.duplicates()}
	if _, classes := r.Meanings["boundary"]; classes {
		l := report.List{Title: "Near a boundary", Columns: []string{"entropy", "margin", "between"}, Note: sentence(boundaryMeaning), Empty: "No row has a score."}
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
	l := report.List{Title: "High leverage", Columns: []string{"leverage"}, Note: sentence(fmt.Sprintf("%s: here %.1f", leverageMeaning, float64(r.Effective))), Empty: "No row has a score."}
	for i := range r.Leverage {
		x := &r.Leverage[i]
		l.Items = append(l.Items, report.ListItem{Row: listed(&x.NamedRow), Values: []string{fmt.Sprintf("%.3f", float64(x.Leverage))}})
	}
	return append(list, l)
}

func (r *auditReport) mislabelled() report.List {
	l := report.List{Title: "Likely mislabelled", Beside: "the rows that say so", Columns: []string{"suggested", "probability", "of its label", "log density"},
		Note: sentence(mislabelledMeaning, supportMeaning), Empty: "The other rows agree with the label of every row."}
	if r.Suspects == nil {
		l.Title, l.Columns, l.Beside = "Farthest from what the others predict", []string{"residual", "log density"}, "the rows that pull away"
		l.Note = sentence(mislabelledMeaning, residualMeaning, supportMeaning)
	} else if more := *r.Suspects - len(r.Mislabelled); more > 0 {
		l.Note = sentence(fmt.Sprintf("the first %d of %d rows whose label is not the most probable one", len(r.Mislabelled), *r.Suspects)) + " " + l.Note
	}
	if r.Noise != nil {
		l.Note += " " + sentence(fmt.Sprintf("here f is the regression of label indicators, whose noise variance is %v of the mean prior variance", float64(*r.Noise)))
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
			item.Values = []string{classText(x.SuggestedName, *x.Suggested), fmt.Sprintf("%.3f", float64(*x.SuggestedProbability)), small3(float64(*x.LabelProbability)), fmt.Sprintf("%.2f", float64(x.LogDensity))}
		}
		for k := range x.Supports {
			b := listed(&x.Supports[k].NamedRow)
			b.Value = fmt.Sprintf("%+.3g", float64(x.Supports[k].Value))
			item.Beside = append(item.Beside, b)
		}
		l.Items = append(l.Items, item)
	}
	return l
}

func (r *auditReport) duplicates() report.List {
	l := report.List{Title: "Duplicates and near-duplicates", Beside: "the other row", Columns: []string{"correlation", "inputs", "labels"},
		Note: sentence(duplicateMeaning), Empty: "No two rows are equal or nearly equal."}
	for i := range r.Duplicates {
		x := &r.Duplicates[i]
		inputs, labels := "nearly equal", "the same"
		if x.Equal {
			inputs = "equal"
		}
		if x.Conflict {
			labels = "DIFFERENT"
		}
		l.Items = append(l.Items, report.ListItem{Row: listed(&x.First), Values: []string{fmt.Sprintf("%.4f", float64(x.Correlation)), inputs, labels}, Beside: []report.ListedRow{listed(&x.Second)}})
	}
	return l
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

// small3 shows a probability that may be very small.
func small3(p float64) string {
	if p < 0.001 {
		return fmt.Sprintf("%.1e", p)
	}
	return fmt.Sprintf("%.3f", p)
}

// auditColumns are the columns of --csv, with their units. A row's residual is that of
// its target farthest from the prediction.
func auditColumns(p *problem.Problem) []report.Column[*audit.Example] {
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
		{Name: "entropy_nats", Value: func(x example) string { return number(result.Float(x.Entropy)) }},
		{Name: "margin", Value: func(x example) string { return number(result.Float(x.Margin)) }},
		{Name: "leverage", Value: func(x example) string { return number(result.Float(x.Leverage)) }},
		{Name: "equal_to_row", Value: func(x example) string {
			if x.EqualTo < 0 {
				return ""
			}
			return strconv.Itoa(int(rows.Named(x.EqualTo).Index))
		}},
	}
}
