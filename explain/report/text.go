package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/funcgp/funcgp/explain/result"
)

// WriteText writes the page as plain text of at most the given number of columns, which is raised
// to 60 if smaller; 0 means 80.
func (p *Page) WriteText(w io.Writer, columns int) error {
	v, err := p.view()
	if err != nil {
		return err
	}
	t := newText(&p.Report.Fit, columns)
	t.view = v
	t.head()
	for i := range v.sections {
		t.section(&v.sections[i])
	}
	// Say what the numbers of the posterior rest on, and what else the report contains.
	t.gap()
	t.wrap("", t.posteriorText())
	for _, text := range bases(t.page.Report) {
		t.wrap("", clean(text))
	}
	if n := t.page.Report.Fit.Outputs; t.kind == classes {
		t.wrap("", fmt.Sprintf("The JSON explains each of the %d outputs as well.", n))
	}
	return t.end(w, &p.Report.Fit)
}

// A textWriter formats a view as plain text.
type textWriter struct {
	strings.Builder
	*view
	columns int
	blank   bool // the next line needs an empty one before it
}

// newText begins a text with the warnings that must not be missed.
func newText(fit *result.Fit, columns int) *textWriter {
	t := &textWriter{columns: max(60, cmp.Or(columns, 80))}
	alarms, _ := fit.Alarms()
	for _, w := range alarms {
		t.wrap("", "WARNING: "+clean(w))
	}
	if alarms != nil {
		t.gap()
	}
	return t
}

// end writes the text to w, with the remaining warnings below it.
func (t *textWriter) end(w io.Writer, fit *result.Fit) error {
	t.gap()
	_, others := fit.Alarms()
	for _, text := range others {
		t.wrap("", "warning: "+clean(text))
	}
	if _, err := io.WriteString(w, t.String()); err != nil {
		return fmt.Errorf("report: writing text: %w", err)
	}
	return nil
}

// gap separates the next line by an empty one.
func (t *textWriter) gap() { t.blank = true }

func (t *textWriter) open() {
	if t.blank {
		t.WriteByte('\n')
		t.blank = false
	}
}

func (t *textWriter) line(format string, args ...any) {
	t.open()
	t.WriteString(strings.TrimRight(fmt.Sprintf(format, args...), " "))
	t.WriteByte('\n')
}

// columnGap separates the columns of a table.
const columnGap = "  "

// columnWidths returns the length of the longest cell of each column.
func columnWidths(lines [][]string) []int {
	widths := make([]int, len(lines[0]))
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	return widths
}

// grid writes a table. With right, all columns but the first are aligned to the right.
func (t *textWriter) grid(indent string, lines [][]string, right bool) {
	for _, line := range lines {
		for i := range line {
			line[i] = clean(line[i])
		}
	}
	widths := columnWidths(lines)
	for _, line := range lines {
		text := indent
		for i, cell := range line {
			space := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			switch {
			case i == 0:
				text += cell + space
			case right:
				text += columnGap + space + cell
			default:
				text += columnGap + cell + space
			}
		}
		t.line("%s", text)
	}
}

// wrap writes an indented paragraph. For an empty text it writes nothing.
func (t *textWriter) wrap(indent, s string) {
	if s == "" {
		return
	}
	t.open()
	used := 0
	for _, word := range strings.Fields(s) {
		n := utf8.RuneCountInString(word)
		if used > 0 && used+1+n > t.columns {
			t.WriteByte('\n')
			used = 0
		}
		if used == 0 {
			t.WriteString(indent)
			used = len(indent)
		} else {
			t.WriteByte(' ')
			used++
		}
		t.WriteString(word)
		used += n
	}
	t.WriteByte('\n')
}

func (t *textWriter) head() {
	p := t.page
	head := clean(t.row)
	if t.label != "" {
		head += ", " + t.labelWord() + " " + clean(t.label)
	}
	switch {
	case t.kind == regression:
	case t.kind == labels:
		head += ": predicted " + clean(result.Labelled(p.Report.Labels, p.Report.Prediction.Probability))
		if wrong, known := t.wrongLabels(); known && wrong == 0 {
			head += ", correct"
		} else if known {
			head += fmt.Sprintf(", %d of %d labels WRONG", wrong, len(p.Report.Labels))
		}
	case t.agree():
		head += ": predicted " + clean(p.Classes[t.predicted])
		switch {
		case t.label == "":
		case t.correct:
			head += ", correct"
		default:
			head += ", WRONG"
		}
	default:
		head += fmt.Sprintf(": UNDECIDED, %s by the network, %s on average", clean(p.Classes[t.predicted]), clean(p.Classes[t.average]))
	}
	t.wrap("", head)
	t.gap()
	if text := t.disagreement(); text != "" {
		t.wrap("  ", clean(text))
		t.gap()
	}
	t.probabilities()
	t.wrap("  ", clean(t.reached(t.average)))
	t.numbers()
	t.wrap("  ", clean(t.explains()))
	t.wrap("  ", t.novelty())
	for _, text := range t.changes() {
		t.wrap("  ", clean(text))
	}
	if x := p.Test; x.Image == nil && len(x.Values) > 0 {
		// List the first n feature values.
		n := 8
		var b strings.Builder
		for i, v := range x.Values {
			if i == n {
				fmt.Fprintf(&b, " and %d more", len(x.Values)-n)
				break
			}
			if i > 0 {
				b.WriteString(", ")
			}
			fmt.Fprintf(&b, "%s %s", featureName(x, i), datum(v))
		}
		t.wrap("  ", clean(b.String()))
	}
}

// numbers writes the values that the sections explain.
func (t *textWriter) numbers() {
	for i := range t.sections {
		s := &t.sections[i]
		c := int(s.out.Output)
		if mean, sd := t.observation(c); !math.IsNaN(mean) {
			d := decimals(mean, sd)
			t.line("  y = %s ± %s  (a new observation)", fixed(mean, d), fixed(sd, d))
			if p := t.interval(); p != nil {
				t.line("      %s to %s with probability 95 %%", fixed(p.lo, d), fixed(p.hi, d))
			}
		}
		if mean, sd := t.latent(c); !math.IsNaN(mean) && t.kind != classes {
			d := decimals(mean, sd)
			t.wrap("  ", fmt.Sprintf("f = %s ± %s  (%s)", fixed(s.sign*mean, d), fixed(sd, d), clean(s.quantity)))
		}
	}
}

// probabilities writes the probabilities of at most the five most probable classes.
func (t *textWriter) probabilities() {
	if t.kind == regression {
		return
	}
	width := 0
	names, most := t.names(), 5
	if t.kind == labels { // each label has a section that explains it
		most = len(names)
	}
	for _, c := range names {
		width = max(width, utf8.RuneCountInString(clean(c)))
	}
	width = min(width, t.columns-46)
	for _, k := range t.likeliest(most) {
		p, sd, network := t.certainty(k)
		if math.IsNaN(p) {
			continue
		}
		name := shorten(clean(names[k]), width)
		t.line("  P(%s)%s = %s ± %-8s %s %s", name, strings.Repeat(" ", width-utf8.RuneCountInString(name)), Probability(p), Probability(sd), t.alone(), Probability(network))
	}
	if left := len(names) - most; left > 0 {
		t.line("  and %d less probable classes", left)
	}
}

func (t *textWriter) section(s *section) {
	t.gap()
	t.line("%s", clean(s.title))
	t.gap()
	d := s.digits
	t.line("  f = prior mean + %d contributions + remainder, rounded", t.page.Report.Fit.Examples)
	t.line("  %s = %s + %s + %s", fixed(s.f, d), bracketed(s.m, d), bracketed(s.s, d), bracketed(s.remainder, d))
	t.wrap("  ", fmt.Sprintf("f: %s. Prior mean: %s. Remainder: %s.", clean(s.quantity), priorMeaning, remainderMeaning))
	t.gap()
	t.table(s)
	t.gap()
	t.wrap("  ", clean(t.cancellation(s)))
}

// bracketed formats a term of a sum, with brackets around a negative number.
func bracketed(x float64, d int) string {
	if s := fixed(x, d); s[0] != '-' {
		return s
	} else {
		return "(" + s + ")"
	}
}

func (t *textWriter) table(s *section) {
	largest, row, label := 0.0, len("row"), len(t.labelWord())
	id := 0
	for _, l := range s.lines {
		largest = math.Max(largest, math.Abs(l.term))
		row, label = max(row, len(fmt.Sprint(l.Index))), max(label, utf8.RuneCountInString(clean(l.label)))
		id = max(id, utf8.RuneCountInString(clean(l.ID)))
	}
	label, id = min(label, 16), min(id, 16)
	d := listDecimals(largest)
	if id > 0 {
		row += 2 + id
	}
	sd := 0
	if s.hasErrorBars() {
		sd = 10
	}
	together, influence := 0, ""
	if s.hasInfluence() {
		together, influence = 11, "influence"
	}
	// Numbers, gaps and the line in the middle take 38 columns.
	half := min(16, max(4, (t.columns-38-sd-together-row-label)/2))
	spread := func(text, mark string) string {
		if sd == 0 {
			return ""
		}
		return fmt.Sprintf(" %-8s%1s", text, mark)
	}
	name := func(l line) string {
		if id == 0 {
			return fmt.Sprint(l.Index)
		}
		return fmt.Sprintf("%*d  %-*s", row-2-id, l.Index, id, shorten(clean(l.ID), id))
	}
	errorBar := "± sd"
	if t.networks() > 1 {
		errorBar = "± se"
	}
	head := "row"
	if id > 0 {
		head = fmt.Sprintf("%*s  %-*s", row-2-id, "row", id, "id")
	}
	t.line("  %*s  %*s %10s%s  %s %10s%*s %8s", row, head, label, t.labelWord(), "value", spread(errorBar, ""), strings.Repeat(" ", half-2)+"- 0 +"+strings.Repeat(" ", half-2), "removal", together, influence, "similar")
	for _, l := range s.lines {
		t.line("  %*s  %*s %10s%s  %s %10s%*s %8s", row, name(l), label, shorten(clean(l.label), label), signed(l.term, d), spread(l.errorBar(d), l.mark()), bar(math.Copysign(portion(l.term, largest), l.term), half),
			signed(float64(l.Removal), d), together, l.influence(d), fixed(float64(l.Similarity), 2))
	}
	if s.others > 0 {
		t.line("  %*s  %*s %10s  the other %d together", row, "", label, "", signed(s.otherSum, d), s.others)
		for _, b := range s.bulk(s.lines) {
			if b.n > 0 {
				t.line("  %*s  %*s %10s    %s: %d", row, "", label, "", signed(b.up+b.down, d), shorten(clean(b.name), t.columns-24-row-label), b.n)
			}
		}
	}
	t.wrap("  ", clean(s.meaning("-", "similar")))
	if sd > 0 {
		t.wrap("  ", t.errorBarMeaning())
	}
	t.sums("layer", t.byLayer(s, s.lines[:min(len(s.lines), (t.columns-32)/12)]))
	t.sums("network", t.byNetwork(s))
}

// sums writes a table of sums, whose first column has the heading name. A nil table writes nothing.
func (t *textWriter) sums(name string, table *sumTable) {
	if table == nil {
		return
	}
	t.gap()
	lines := [][]string{{name}}
	for _, x := range table.Heads {
		lines[0] = append(lines[0], strings.TrimPrefix(x[max(0, strings.LastIndex(x, ", row ")):], ", ")) // without the ID of a row
	}
	lines = append(lines, table.Rows...)
	width, cell := 0, 11
	for _, row := range lines {
		width = max(width, utf8.RuneCountInString(clean(row[0])))
		for _, x := range row[1:] {
			cell = max(cell, utf8.RuneCountInString(x))
		}
	}
	width = min(width, t.columns-4-(cell+1)*len(table.Heads))
	for _, row := range lines {
		text := fmt.Sprintf("  %-*s", width, shorten(clean(row[0]), width))
		for _, x := range row[1:] {
			text += fmt.Sprintf(" %*s", cell, x)
		}
		t.line("%s", text)
	}
	t.wrap("  ", table.Note)
}

// shorten cuts text to at most n runes, the last of them an ellipsis.
func shorten(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:max(0, n-1)]) + "…"
}

// bar draws x in [−1, 1] to the left or right of a line, in half cells.
func bar(x float64, half int) string {
	n := int(math.Round(math.Abs(x) * float64(2*half)))
	full, rest := strings.Repeat("█", n/2), half-(n+1)/2
	if x < 0 {
		if n%2 == 1 {
			full = "▐" + full
		}
		return strings.Repeat(" ", rest) + full + "│" + strings.Repeat(" ", half)
	}
	if n%2 == 1 {
		full += "▌"
	}
	return strings.Repeat(" ", half) + "│" + full + strings.Repeat(" ", rest)
}

// clean removes control characters from names and messages that come from files, so that they cannot control a
// terminal.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u202e' || r == utf8.RuneError {
			return ' '
		}
		return r
	}, s)
}
