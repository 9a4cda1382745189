package report

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/funcgp/funcgp/explain/result"
)

// These types hold the data of the template that shows the explained row beside training rows.
type (
	htmlComparison struct {
		Note    string
		Label   string // of this row
		Columns []htmlColumn
		Rows    []htmlFeature
		More    []fact
	}
	htmlColumn struct {
		Row, Label, Value, Side, Class string
		Extra                          bool // whether narrow screens hide the column
	}
	htmlFeature struct {
		Name, This string
		Cells      []htmlCell
	}
	htmlCell struct {
		Value, Mark, Says, Class string
		Extra                    bool
	}
)

const (
	comparedRows     = 3  // of each side
	comparedFeatures = 20 // in the table
)

// marked is the smallest difference, in standard deviations, that a page marks.
const marked = 0.5

// comparison shows the features of the explained row beside those of the training rows that speak most for and
// against it. It is nil without features.
func (h *htmlWriter) comparison(s *section) *htmlComparison {
	test := h.page.Test
	if test.Image != nil || len(test.Values) == 0 {
		return nil
	}
	var rows []line
	c := &htmlComparison{}
	for _, side := range []struct {
		class string
		sign  int
		list  []line
	}{{"for", +1, s.up}, {"against", -1, s.down}} {
		for i, l := range head(side.list, comparedRows) {
			if len(l.picture.Values) != len(test.Values) {
				continue
			}
			rows = append(rows, l)
			c.Columns = append(c.Columns, htmlColumn{Row: cmp.Or(l.ID, l.row), Label: spaced(h.labelText(l.shown())), Value: spaced(typeset(signed(l.term, s.listDecimals()))),
				Side: h.pull(s, side.sign), Class: side.class, Extra: i > 0})
		}
	}
	shown := h.telling(rows)
	for _, i := range shown {
		f := htmlFeature{Name: featureName(test, i), This: h.feature(test.Values[i], i)}
		for k, l := range rows {
			f.Cells = append(f.Cells, h.cell(test.Values[i], l.picture.Values[i], i, c.Columns[k].Extra))
		}
		c.Rows = append(c.Rows, f)
	}
	for i, v := range test.Values {
		if !slices.Contains(shown, i) {
			c.More = append(c.More, fact{Name: featureName(test, i), Value: h.feature(v, i)})
		}
	}
	c.Label = spaced(h.labelText(typeset(h.label)))
	if len(shown) < len(test.Values) {
		c.Note = "The " + result.Count(len(shown)) + " of " + result.Count(len(test.Values)) + " features in which these rows differ most. "
	}
	if len(rows) > 0 && h.page.Spread != nil {
		c.Note += "▲ and ▼: higher or lower than in this row by half a standard deviation of the training rows or more; doubled from two on. Grey: the same."
	}
	return c
}

// telling returns the features to show, in order: all of them if they are few, and otherwise those in which
// the training rows differ most from the explained row.
func (h *htmlWriter) telling(rows []line) []int {
	test := h.page.Test.Values
	order := make([]int, len(test))
	for i := range order {
		order[i] = i
	}
	if len(order) <= comparedFeatures {
		return order
	}
	size := make([]float64, len(test))
	for i := range size {
		for _, l := range rows {
			if d := math.Abs(h.distance(test[i], l.picture.Values[i], i)); !math.IsNaN(d) {
				size[i] += d
			}
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(size[b], size[a]) })
	return slices.Sorted(slices.Values(order[:comparedFeatures]))
}

// distance returns by how much feature i is higher in another row than in the explained row. The unit is the
// feature's standard deviation over the training rows, or the feature's own unit if that is not known.
func (h *htmlWriter) distance(here, there float64, i int) float64 {
	if i < len(h.page.Spread) && h.page.Spread[i] > 0 {
		return (there - here) / h.page.Spread[i]
	}
	return there - here
}

// feature formats a value of feature i, as in the data but no finer than a thousandth
// of its standard deviation.
func (h *htmlWriter) feature(v float64, i int) string {
	text := datum(v)
	if i < len(h.page.Spread) && h.page.Spread[i] > 0 && !strings.Contains(text, "e") {
		if _, after, ok := strings.Cut(text, "."); ok {
			if d := max(0, 3-int(math.Floor(math.Log10(h.page.Spread[i])))); len(after) > d {
				text = fixed(v, d)
			}
		}
	}
	return typeset(text)
}

// spaced replaces no-break spaces by spaces, so that the text can be broken there.
func spaced(s string) string { return strings.ReplaceAll(s, "\u00a0", " ") }

// cell shows feature i of a training row, and marks how it differs from the explained row.
func (h *htmlWriter) cell(here, there float64, i int, extra bool) htmlCell {
	c := htmlCell{Value: h.feature(there, i), Extra: extra}
	if here == there {
		c.Class = "same"
		return c
	}
	if i >= len(h.page.Spread) || !(h.page.Spread[i] > 0) {
		return c
	}
	switch d := h.distance(here, there, i); {
	case d >= 2:
		c.Mark, c.Says, c.Class = "▲▲", "much higher", "far"
	case d >= marked:
		c.Mark, c.Says, c.Class = "▲", "higher", "differs"
	case d <= -2:
		c.Mark, c.Says, c.Class = "▼▼", "much lower", "far"
	case d <= -marked:
		c.Mark, c.Says, c.Class = "▼", "lower", "differs"
	}
	return c
}

// labelText says what the label of a row is. It is "" if the label is unknown.
func (v *view) labelText(label string) string {
	switch {
	case label == "":
		return ""
	case v.kind == regression:
		return "target " + label
	}
	return "labelled " + label
}

// listDecimals returns the number of decimals with which the listed terms are shown.
func (s *section) listDecimals() int {
	largest := 0.0
	for _, l := range slices.Concat(s.up, s.down) {
		largest = math.Max(largest, math.Abs(l.term))
	}
	return listDecimals(largest)
}
