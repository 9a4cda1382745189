package report

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/funcgp/funcgp/explain/result"
)

// AuditPage returns the page with the lists of an audit. The caller sets Picture and Origin.
func AuditPage(a *result.Audit) *ListPage {
	p := &ListPage{Title: "Training rows worth a look", Eyebrow: result.Some(a.Examples, "training row", "training rows") + ", each predicted by the others",
		Lists: []List{suspects(a), duplicates(a)}, Fit: &a.Fit, Timings: &a.Timings}
	if a.Suspects != nil {
		p.Lists = append(p.Lists, boundary(a))
	}
	leverage := List{Title: "High leverage", Columns: []string{"leverage"}, Note: sentence(fmt.Sprintf("%s: here %.1f", result.LeverageMeaning, float64(a.Effective))), Empty: "No row has a score."}
	for i := range a.Leverage {
		x := &a.Leverage[i]
		leverage.Items = append(leverage.Items, ListItem{Row: listed(&x.NamedRow), Values: []string{fmt.Sprintf("%.3f", float64(x.Leverage))}})
	}
	p.Lists = append(p.Lists, leverage)
	for i := range p.Lists {
		if p.Lists[i].Label = "label"; a.Suspects == nil {
			p.Lists[i].Label = "target"
		}
	}
	return p
}

// suspects lists the rows whose labels or targets the other rows contradict.
func suspects(a *result.Audit) List {
	l := List{Title: "Likely mislabelled", Beside: "the rows that say so", Columns: []string{"suggested", "probability", "of its label", "log density"},
		Note: sentence(result.DensityMeaning(true), result.SupportMeaning), Empty: "The other rows agree with the label of every row."}
	if a.Suspects == nil {
		l.Title, l.Columns, l.Beside = "Farthest from what the others predict", []string{"residual", "log density"}, "the rows that pull away"
		l.Note = sentence(result.DensityMeaning(false), result.ResidualMeaning, result.PullMeaning)
	} else if *a.Suspects > len(a.Mislabelled) {
		l.Note = sentence(fmt.Sprintf("the first %d of %d rows whose label is not the most probable one", len(a.Mislabelled), *a.Suspects)) + " " + l.Note
	}
	if a.Noise != nil {
		l.Note += " " + sentence(fmt.Sprintf("here f is a regression of the labels, whose noise variance is %v of the mean prior variance", float64(*a.Noise)))
	}
	for i := range a.Mislabelled {
		x := &a.Mislabelled[i]
		item := ListItem{Row: listed(&x.NamedRow)}
		if a.Suspects == nil {
			var residuals []string
			for _, z := range x.Residual {
				residuals = append(residuals, fmt.Sprintf("%+.2f", float64(z)))
			}
			item.Values = []string{strings.Join(residuals, ", ")}
		} else {
			item.Values = []string{classText(x.SuggestedName, *x.Suggested), Probability(float64(*x.SuggestedProbability)), Probability(float64(*x.LabelProbability))}
		}
		item.Values = append(item.Values, fmt.Sprintf("%.2f", float64(x.LogDensity)))
		for k := range x.Supports {
			b := listed(&x.Supports[k].NamedRow)
			b.Value = Term(float64(x.Supports[k].Value), float64(x.Supports[0].Value))
			item.Beside = append(item.Beside, b)
		}
		l.Items = append(l.Items, item)
	}
	return l
}

// duplicates lists the pairs of rows that are equal or nearly equal.
func duplicates(a *result.Audit) List {
	labels, different := "labels", "DIFFERENT"
	if a.Suspects == nil {
		labels, different = "targets", "different"
	}
	l := List{Title: "Duplicates and near-duplicates", Beside: "the other row", Columns: []string{"correlation", "inputs", labels},
		Note: sentence(result.DuplicateMeaning), Empty: "No two rows are equal or nearly equal."}
	for i := range a.Duplicates {
		x := &a.Duplicates[i]
		inputs, same := "nearly equal", "the same"
		if x.Equal {
			inputs = "equal"
		}
		if x.Conflict {
			same = different
		}
		l.Items = append(l.Items, ListItem{Row: listed(&x.First), Values: []string{fmt.Sprintf("%.4f", float64(x.Correlation)), inputs, same}, Beside: []ListedRow{listed(&x.Second)}})
	}
	return l
}

// boundary lists the rows for which several classes are probable.
func boundary(a *result.Audit) List {
	l := List{Title: "Near a boundary", Columns: []string{"entropy", "margin", "between"}, Note: sentence(result.BoundaryMeaning), Empty: "No row has a score."}
	for i := range a.Boundary {
		x := &a.Boundary[i]
		names := x.Names
		if len(names) < 2 {
			names = []string{classText("", x.Between[0]), classText("", x.Between[1])}
		}
		l.Items = append(l.Items, ListItem{Row: listed(&x.NamedRow), Values: []string{fmt.Sprintf("%.3f", float64(x.Entropy)), fmt.Sprintf("%.3f", float64(x.Margin)), names[0] + " and " + names[1]}})
	}
	return l
}

// sentence joins notes to sentences.
func sentence(notes ...string) string {
	var list []string
	for _, n := range notes {
		list = append(list, strings.ToUpper(n[:1])+n[1:]+".")
	}
	return strings.Join(list, " ")
}

func listed(r *result.NamedRow) ListedRow {
	return ListedRow{Index: r.Index, ID: r.ID, Label: LabelText(r)}
}

// classText returns the name of a class, or its label if it has no name; "" if both are unknown.
func classText(name string, label result.Float) string { return cmp.Or(name, exact(label)) }

// AuditColumns are the columns of a table of the scores of training rows, with their units.
func AuditColumns() []Column[*result.AuditScores] {
	type row = *result.AuditScores
	number := func(name string, of func(x row) result.Float) Column[row] {
		return Column[row]{name, func(x row) string { return exact(of(x)) }}
	}
	return []Column[row]{
		{"row", func(x row) string { return strconv.Itoa(int(x.Index)) }},
		{"id", func(x row) string { return x.ID }},
		{"label", func(x row) string { return classText(x.LabelName, x.Label) }},
		number("log_density_nats", func(x row) result.Float { return x.LogDensity }),
		{"suggested", func(x row) string { return classText(x.SuggestedName, x.Suggested) }},
		number("suggested_probability", func(x row) result.Float { return x.SuggestedProbability }),
		number("label_probability", func(x row) result.Float { return x.LabelProbability }),
		number("residual_sd", func(x row) result.Float { return x.Residual }),
		number("entropy_nats", func(x row) result.Float { return x.Entropy }),
		number("margin", func(x row) result.Float { return x.Margin }),
		number("leverage", func(x row) result.Float { return x.Leverage }),
		{"equal_to_row", func(x row) string {
			if x.EqualTo < 0 {
				return ""
			}
			return strconv.Itoa(int(x.EqualTo))
		}},
	}
}
