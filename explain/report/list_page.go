package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/funcgp/funcgp/explain/result"
)

// A ListPage shows lists of rows with numbers about them, such as an audit, as text or HTML.
type ListPage struct {
	Title, Eyebrow string
	Note           string // a paragraph that says what the lists are
	Lists          []List
	// Picture returns the picture of a row; nil shows none.
	Picture func(row result.Index) result.Picture
	Fit     *result.Fit
	Timings *result.Timings
	result.Origin
	figure *htmlFigure // above the lists, nil for none
}

// A List is a list of rows; the first matter most.
type List struct {
	Title   string
	Note    string   // explains the numbers, their units and their signs
	Empty   string   // text shown if there are no items
	Label   string   // name of the labels; "" is label
	Columns []string // names of the values
	Beside  string   // heading of the rows beside each row; "" for none
	Items   []ListItem
}

// A ListItem is one row of a list.
type ListItem struct {
	Row    ListedRow
	Values []string    // one for each of List.Columns
	Beside []ListedRow // other rows that belong to it
}

// A ListedRow is a row of the data on a page.
type ListedRow struct {
	Index     result.Index
	ID, Label string
	Value     string // a number about it, "" for none
}

// name returns the name of the row, if it has one, and its number.
func (r *ListedRow) name() string { return named(r.ID, fmt.Sprintf("row\u00a0%d", r.Index)) }

type htmlList struct {
	Eyebrow, Note string
	Figure        *htmlFigure
	Lists         []htmlListed
	htmlFrame
}

type htmlListed struct {
	Title, Note, Empty, Beside string
	Items                      []htmlItem
	Table                      *htmlRows // used in place of Items if rows have no pictures
}

type htmlItem struct {
	Row    htmlLine
	Values []fact
	Beside []htmlLine
}

// WriteHTML writes the page as one self-contained HTML document.
func (p *ListPage) WriteHTML(w io.Writer) error {
	out := originWriter(p.Origin, p.Fit, p.Timings)
	h := &htmlList{Eyebrow: p.Eyebrow, Note: p.Note, Figure: p.figure, htmlFrame: out.frame(p.Title, nil)}
	for i := range p.Lists {
		l, err := out.list(&p.Lists[i], p.Picture)
		if err != nil {
			return err
		}
		h.Lists = append(h.Lists, *l)
	}
	return execute(w, "list.html", h)
}

// WriteText writes the lists as plain text. Paragraphs are wrapped at the given number of columns,
// which is raised to 60 if smaller; 0 means 80. Rows are not wrapped.
func (p *ListPage) WriteText(w io.Writer, columns int) error {
	t := newText(p.Fit, columns)
	for i := range p.Lists {
		l := &p.Lists[i]
		t.line("%s", l.Title)
		t.wrap("", clean(l.Note))
		if len(l.Items) == 0 {
			t.line("  %s", l.Empty)
			t.gap()
			continue
		}
		t.grid("  ", listLines(l), false)
		t.gap()
	}
	t.wrap("", clean(Basis(p.Fit)))
	return t.end(w, p.Fit)
}

// listLines returns the rows of a list as text, under the names of their columns.
func listLines(l *List) [][]string {
	text := func(r *ListedRow) string { return strings.TrimSpace(fmt.Sprintf("%d %s", r.Index, r.ID)) }
	lines := [][]string{append([]string{"row", l.labelName()}, l.Columns...)}
	if l.Beside != "" {
		lines[0] = append(lines[0], l.Beside)
	}
	for _, x := range l.Items {
		line := append([]string{text(&x.Row), x.Row.Label}, x.Values...)
		var rows []string
		for _, b := range x.Beside {
			one := text(&b)
			if b.Label != "" {
				one += " (" + b.Label + ")"
			}
			rows = append(rows, strings.TrimSpace(one+" "+b.Value))
		}
		if l.Beside != "" {
			line = append(line, strings.Join(rows, ", "))
		}
		lines = append(lines, line)
	}
	return lines
}

// list lays out a list. Rows that have pictures are shown with them; other rows are shown as a table.
func (h *htmlWriter) list(l *List, picture func(row result.Index) result.Picture) (*htmlListed, error) {
	out := &htmlListed{Title: l.Title, Note: l.Note, Beside: l.Beside}
	if len(l.Items) == 0 {
		out.Empty = l.Empty
		return out, nil
	}
	if picture == nil {
		picture = func(result.Index) result.Picture { return result.Picture{} }
	}
	pictures := make([]result.Picture, len(l.Items))
	for i := range l.Items {
		pictures[i] = picture(l.Items[i].Row.Index)
	}
	line := func(x *ListedRow) (htmlLine, error) {
		row := x.name()
		pic, err := h.picture(picture(x.Index), row, "thumb")
		if x.Label != "" {
			pic.Alt += ", labelled " + x.Label
		}
		return htmlLine{Label: typeset(x.Label), Row: row, Value: typeset(x.Value), Picture: pic}, err
	}
	if pictures[0].Image == nil {
		out.Table = l.table(pictures)
		return out, nil
	}
	for i, x := range l.Items {
		row, err := line(&x.Row)
		if err != nil {
			return nil, err
		}
		item := htmlItem{Row: row}
		for k, name := range l.Columns {
			item.Values = append(item.Values, fact{Name: name, Value: typeset(x.Values[k])})
		}
		for k := range x.Beside {
			other, err := line(&l.Items[i].Beside[k])
			if err != nil {
				return nil, err
			}
			item.Beside = append(item.Beside, other)
		}
		out.Items = append(out.Items, item)
	}
	return out, nil
}

// labelName returns the noun for labels on the page.
func (l *List) labelName() string { return cmp.Or(l.Label, "label") }

// table returns the list as a table with the first features of its rows.
func (l *List) table(pictures []result.Picture) *htmlRows {
	columns := append([]string{"Row", capital(l.labelName())}, l.Columns...)
	if l.Beside != "" {
		columns = append(columns, capital(l.Beside))
	}
	t := newRowTable(pictures, columns...)
	if t == nil {
		t = &htmlRows{}
		for _, name := range columns {
			t.Columns = append(t.Columns, htmlCell{Value: name, Class: "text"})
		}
	}
	for i, x := range l.Items {
		cells := []htmlCell{{Value: x.Row.name()}, {Value: typeset(x.Row.Label), Class: "text"}}
		for _, v := range x.Values {
			cells = append(cells, htmlCell{Value: typeset(v), Class: "text"})
		}
		if l.Beside != "" {
			var rows []string
			for _, b := range x.Beside {
				text := b.name()
				if b.Label != "" {
					text += ", " + l.labelName() + "\u00a0" + typeset(b.Label)
				}
				if b.Value != "" {
					text += ": " + typeset(b.Value)
				}
				rows = append(rows, text)
			}
			cells = append(cells, htmlCell{Value: strings.Join(rows, "\n"), Class: "text lines"})
		}
		t.add(pictures[i], cells...)
	}
	return t
}

// The data of the template of a table of rows that have features and no picture.
type htmlRows struct {
	Columns []htmlCell
	Rows    [][]htmlCell
}

// Long tells whether the text of the cell is so long, or has so long a word, that it must be broken.
func (c htmlCell) Long() bool {
	return utf8.RuneCountInString(c.Value) > 26 || slices.ContainsFunc(strings.Fields(c.Value), func(word string) bool { return utf8.RuneCountInString(word) > 12 })
}

// tableFeatures is the largest number of features in a table of rows.
const tableFeatures = 5

// newRowTable returns a table with these columns and the first features of the rows. rows is nil if a row has a
// picture or no row has features.
func newRowTable(rows []result.Picture, columns ...string) *htmlRows {
	t := &htmlRows{}
	most := 0
	for _, p := range rows {
		if p.Image != nil {
			return nil
		}
		most = max(most, len(p.Values))
	}
	if most == 0 {
		return nil
	}
	for _, name := range columns {
		t.Columns = append(t.Columns, htmlCell{Value: name, Class: "text"})
	}
	for i := range min(most, tableFeatures) {
		t.Columns = append(t.Columns, htmlCell{Value: featureName(rows[0], i), Extra: true})
	}
	if most > tableFeatures {
		t.Columns[len(t.Columns)-1].Says = "and " + result.Some(most-tableFeatures, "other feature", "other features")
	}
	return t
}

// add appends a row with the given cells and its features.
func (t *htmlRows) add(p result.Picture, cells ...htmlCell) {
	for i, v := range p.Values {
		if i < tableFeatures {
			cells = append(cells, htmlCell{Value: typeset(datum(v)), Extra: true})
		}
	}
	t.Rows = append(t.Rows, cells)
}

// LabelText returns the label in words: the name of its class, or the number; "" if it is unknown.
func LabelText(r *result.NamedRow) string { return labelNamed(r.LabelName, r.Label) }

// ImportancePage returns the page of a report of importances: the sorted curve of all |α|, and below it the
// list of the largest. The caller sets Picture and Origin.
func ImportancePage(r *result.ImportanceReport) *ListPage {
	half, share := halfOf(r.Curve)
	n := len(r.Curve)
	list := List{Title: "The " + result.Count(len(r.Importances)) + " largest", Note: together(share) + " " + result.ImportanceMeaning, Columns: []string{"|α|"}, Empty: "There is no training example."}
	for _, x := range r.Importances {
		list.Items = append(list.Items, ListItem{Row: ListedRow{Index: x.Index, ID: x.ID, Label: labelNamed(x.LabelName, x.Label)},
			Values: []string{fixed(float64(x.Norm), listDecimals(float64(r.Importances[0].Norm)))}})
	}
	p := &ListPage{Title: "Important training examples", Eyebrow: result.Some(n, "training example", "training examples"), Lists: []List{list}, Fit: &r.Fit, Timings: &r.Timings}
	if n == 0 || !(r.Curve[0] > 0) {
		return p
	}
	f := plotFrame{left: 60, top: 8, width: 350, height: 200}
	x, y := axis{hi: float64(n)}, axis{hi: float64(r.Curve[0])}
	d := htmlDiagram{Class: "for", Height: "232", XName: "training examples, the largest first", YName: "|α|",
		Label: fmt.Sprintf("Sorted |α|, from %s down to %s. %s", result.Short(float64(r.Curve[0])), result.Short(float64(r.Curve[n-1])), share)}
	d.frame(f, x.ticks(), y.ticks())
	var px, py []float64
	for points, k := min(n, curvePoints), 0; k < points; k++ {
		i := k * (n - 1) / max(1, points-1)
		// Each example is a step of width 1/n.
		px, py = append(px, f.x(x.at(float64(i))), f.x(x.at(float64(i+1)))), append(py, f.y(y.at(float64(r.Curve[i]))), f.y(y.at(float64(r.Curve[i]))))
	}
	d.Line = path(px, py)
	d.Guide = path([]float64{f.x(x.at(float64(half))), f.x(x.at(float64(half)))}, []float64{f.y(0), f.y(1)})
	p.figure = &htmlFigure{Title: "All examples, sorted", Diagrams: []htmlDiagram{d}, Notes: []string{"The examples to the left of the dashed line make up half of the sum of all |α|."}}
	return p
}

// curvePoints is the largest number of points of the curve.
const curvePoints = 500

// halfOf returns how many examples make up half of Σ|α|, and a sentence that says so.
func halfOf(curve []result.Float) (half int, say string) {
	sum, part := 0.0, 0.0
	for _, a := range curve {
		sum += float64(a)
	}
	if !(sum > 0) {
		return 0, "No example pulls on the model."
	}
	for part < sum/2 && half < len(curve) {
		part += float64(curve[half])
		half++
	}
	return half, fmt.Sprintf("Half of the sum of all |α| comes from %s, %s %% of the training data.",
		result.Some(half, "example", "examples"), result.Short(math.Round(1000*float64(half)/float64(len(curve)))/10))
}
