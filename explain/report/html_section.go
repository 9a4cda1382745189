package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/funcgp/funcgp/explain/result"
)

func (h *htmlWriter) section(s *section, at int) (*htmlSection, error) {
	t := &htmlSection{
		Title:         s.title,
		F:             typeset(fixed(s.f, s.digits)),
		Closing:       h.closing(s),
		Cancellation:  typeset(h.cancellation(s)),
		Concentration: s.concentration(slices.Concat(s.up, s.down)),
		Collapsible:   len(h.sections) > 1,
		Open:          at == 0,
		Equation:      h.equation(s),
		Comparison:    h.comparison(s),
		Curve:         h.curveDiagram(s),
		SimilarNote:   labelled(s.similar),
	}
	t.Meaning = strings.Replace(s.meaning("−", "similarity"), "removal:", "“without it”:", 1)
	if s.hasErrorBars() {
		t.ErrorBars = h.errorBarMeaning()
	}
	t.Layers = h.byLayer(s, slices.Concat(head(s.up, layerColumns), head(s.down, layerColumns))).typeset()
	t.Networks = h.byNetwork(s).typeset()
	t.Up, t.Down = h.sideTitles(s)
	h.bulkTable(t, s)
	var err error
	if t.Sides, err = h.sides(s); err != nil {
		return nil, err
	}
	for _, l := range s.similar {
		x, err := h.line(l, 1)
		if err != nil {
			return nil, err
		}
		x.Value = x.Similarity
		x.Other = l.Label.Finite() && l.Label != h.page.Report.Prediction.Class
		t.Similar, t.Wide = append(t.Similar, x), x.Picture.URI == ""
	}
	return t, nil
}

// bulkTable sums up the training examples that are not listed, by class.
func (h *htmlWriter) bulkTable(t *htmlSection, s *section) {
	listed := slices.Concat(s.up, s.down)
	n, rest := h.without(s.s, listed)
	list := s.bulk(listed)
	if n == 0 || len(list) == 0 {
		return
	}
	t.BulkTitle = "The other " + result.Some(n, "training example", "training examples")
	d := decimals(s.s, rest)
	d = max(0, d-1)
	all := bulk{name: "together", n: n}
	for _, b := range list {
		if b.n > 0 {
			t.Bulk = append(t.Bulk, bulkLine(b, d))
		}
		all.up, all.down = all.up+b.up, all.down+b.down
	}
	if len(t.Bulk) > 1 {
		total := bulkLine(all, d)
		total.Total = true
		t.Bulk = append(t.Bulk, total)
	}
}

func bulkLine(b bulk, d int) htmlBulk {
	name := b.name
	if strings.HasPrefix(name, "target ") {
		name = typeset(name)
	}
	return htmlBulk{Name: name, N: result.Count(b.n), Up: typeset(signed(b.up, d)), Down: typeset(signed(b.down, d)), Sum: typeset(signed(b.up+b.down, d))}
}

// equation returns the terms of the sum from the prior mean to f; the listed terms of each sign are
// added up.
func (h *htmlWriter) equation(s *section) []htmlTerm {
	sum := []htmlTerm{{Value: typeset(fixed(s.m, s.digits)), Note: priorMeaning}}
	term := func(x float64, note, class string) htmlTerm {
		op := "+"
		if x < 0 {
			op, x = "−", -x
		}
		return htmlTerm{Op: op, Value: typeset(fixed(x, s.digits)), Note: note, Class: class}
	}
	if n := len(s.up); n > 0 {
		sum = append(sum, term(total(s.up), "the "+result.Count(n)+" largest "+h.pull(s, +1), "for"))
	}
	if n := len(s.down); n > 0 {
		sum = append(sum, term(total(s.down), "the "+result.Count(n)+" largest "+h.pull(s, -1), "against"))
	}
	if n, rest := h.without(s.s, slices.Concat(s.up, s.down)); n > 0 {
		sum = append(sum, term(rest, "the other "+result.Some(n, "training example", "training examples"), side(rest)))
	}
	return append(sum, term(s.remainder, "remainder: what no training example explains", ""), htmlTerm{Op: "=", Value: typeset(fixed(s.f, s.digits)), Note: "f, " + strings.ReplaceAll(s.quantity, " of ", " of\u00a0")})
}

// sides returns the listed terms by sign, the positive first.
func (h *htmlWriter) sides(s *section) ([]htmlSide, error) {
	largest := 0.0
	for _, l := range slices.Concat(s.up, s.down) {
		largest = math.Max(largest, math.Abs(l.term))
	}
	up, down := htmlSide{Class: "for"}, htmlSide{Class: "against"}
	up.Title, down.Title = h.sideTitles(s)
	if err := h.fill(&up, s.up, largest); err != nil {
		return nil, err
	}
	return []htmlSide{up, down}, h.fill(&down, s.down, largest)
}

// printedLines is the largest number of terms of each sign that are printed.
const printedLines = 8

func (h *htmlWriter) fill(t *htmlSide, list []line, largest float64) error {
	for _, l := range list {
		x, err := h.line(l, largest)
		if err != nil {
			return err
		}
		x.Class = t.Class
		t.Terms = append(t.Terms, x)
	}
	if len(list) > 0 {
		t.Total = typeset(signed(total(list), listDecimals(largest)))
	}
	t.Unprinted = max(0, len(list)-printedLines)
	return nil
}

func (h *htmlWriter) line(l line, largest float64) (htmlLine, error) {
	pic, err := h.picture(l.picture, "training "+l.row, "thumb")
	if err != nil {
		return htmlLine{}, err
	}
	if l.label != "" {
		pic.Alt += ", labelled " + l.label
	}
	d := listDecimals(largest)
	x := htmlLine{
		Label: l.shown(), Row: together(l.row), Picture: pic,
		Value:      typeset(signed(l.term, d)),
		Width:      fixed(100*portion(l.term, largest), 2),
		Removal:    typeset(signed(float64(l.Removal), d)),
		Influence:  typeset(l.influence(d)),
		Similarity: typeset(fixed(float64(l.Similarity), 2)),
		SD:         typeset(l.errorBar(d)), Mark: l.mark(),
	}
	if h.kind == regression && l.label != "" {
		x.Row = "target, " + x.Row
	}
	return x, nil
}

// layerColumns is how many listed terms of each sign the table of layers has.
const layerColumns = 2

// labelled counts the labels in a list: "7 of these 8 are labelled 9, 1 is
// labelled 4." It returns "" if a label is unknown or there are more than four.
func labelled(list []line) string {
	times := map[string]int{}
	var names []string
	for _, l := range list {
		if l.label == "" {
			return ""
		}
		if times[l.label] == 0 {
			names = append(names, l.label)
		}
		times[l.label]++
	}
	if len(names) == 0 || len(names) > 4 {
		return ""
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(times[b], times[a]) })
	if len(names) == 1 {
		return fmt.Sprintf("All %d are labelled %s.", len(list), names[0])
	}
	var parts []string
	for i, name := range names {
		switch n := times[name]; {
		case i == 0:
			parts = append(parts, fmt.Sprintf("%d of these %d are labelled %s", n, len(list), name))
		default:
			parts = append(parts, result.Some(n, "is", "are")+" labelled "+name)
		}
	}
	return strings.Join(parts, ", ") + "."
}
