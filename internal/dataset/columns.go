package dataset

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/funcgp/funcgp/internal/option"
)

// layout says which columns of a file are targets, IDs, weights and features. If like is not nil, the file must have
// the columns of that table, in any order and with or without targets.
type layout struct {
	target string                        // names of the target columns, separated by commas; "" is the last column
	id     string                        // "" is none
	weight string                        // "" is none
	names  []string                      // words that may occur as labels
	real   bool                          // one-hot rows of targets stay numbers
	spare  func(columns []string) []bool // which features are spare: see OpenOptions.Spare; nil for none
	like   *table
	rows   float64 // estimated number of rows; 0 if unknown
}

// width returns the number of targets of a row. It is 0 for a table without targets.
func (l *layout) width() int {
	if l.like != nil {
		return len(l.like.targets)
	}
	return 1 + strings.Count(l.target, ",")
}

// columns holds the positions of the columns in a header.
type columns struct {
	header           []string
	features, target []int
	spare            []bool // whether each feature is spare, as in table
	id, weight       int    // -1 if there is none
	grey             bool   // features are grey levels from 0 to 255
}

// field describes field j of a record, which is not a number, for an error.
func (c *columns) field(in *records, rec []string, j int) *Field {
	number := func(j int) bool { return numbers([]string{rec[j]}, in.Comma) == 1 }
	f := &Field{Column: c.header[j], Word: isWord(strings.TrimSpace(rec[j]), in.Comma), Number: true}
	for _, k := range c.features {
		f.Features, f.Numbers = append(f.Features, c.header[k]), append(f.Numbers, number(k))
	}
	for _, k := range c.target {
		f.Targets, f.Number = append(f.Targets, c.header[k]), f.Number && number(k)
	}
	return f
}

// check refuses a record whose number of fields differs from that of the header. Additional empty fields at its end
// are allowed.
func (c *columns) check(in *records, rec []string) error {
	n := len(c.header)
	if len(rec) == n || len(rec) > n && !slices.ContainsFunc(rec[n:], func(field string) bool { return strings.TrimSpace(field) != "" }) {
		return nil
	}
	e := &Error{
		File: in.name, Line: in.line(0), Remedy: "give every row one field a column",
		Problem: fmt.Sprintf("%d fields, but the header has %d", len(rec), n),
	}
	switch {
	case strings.HasPrefix(c.header[0], "#"):
		e.Problem, e.Remedy = e.Problem+fmt.Sprintf(" (%s)", option.Quote(c.header[0])), "take out lines of comments, and begin the file with the names of the columns"
	case strings.HasPrefix(strings.TrimSpace(rec[0]), "#"):
		e.Problem, e.Remedy = "a line of comment: "+option.Quote(strings.Join(rec, string(in.Comma))), "take it out"
	}
	return e
}

// table returns an empty table with these columns.
func (c *columns) table(name string) *table {
	t := newTable(name)
	t.spare = c.spare
	for _, j := range c.features {
		column := ""
		if j >= 0 {
			column = c.header[j]
		}
		t.Columns = append(t.Columns, column)
	}
	for _, j := range c.target {
		t.targets = append(t.targets, c.header[j])
	}
	return t
}

func trimAll(fields []string) []string {
	out := make([]string, len(fields))
	for i, f := range fields {
		out[i] = strings.TrimSpace(f)
	}
	return out
}

// find returns the columns of a file with this header, by the table like or by the names in the layout.
// The target is the column that target names, otherwise target is read as a list of columns; if it is "",
// the target is the last column that is not the ID.
func (l *layout) find(name string, header []string, comma rune) (*columns, error) {
	fail := func(remedy option.Text, format string, a ...any) (*columns, error) {
		return nil, &Error{File: name, Line: 1, Problem: fmt.Sprintf(format, a...), Remedy: remedy}
	}
	for len(header) > 2 && header[len(header)-1] == "" {
		header = header[:len(header)-1] // the line ends with a separator
	}
	if isRow(header, comma) {
		return fail("begin the file with a header line", "numbers where the column names should be: %s", option.QuoteList(header))
	}
	for j, h := range header {
		if !utf8.ValidString(h) {
			return fail(utf8Remedy, "the name of column %d, %s, is not in UTF-8", j+1, option.Quote(h))
		}
	}
	seen := map[string]int{}
	for j, h := range header {
		if i, ok := seen[h]; ok {
			return fail("rename one", "columns %d and %d have the same name %s", i+1, j+1, option.Quote(h))
		}
		seen[h] = j
	}
	if l.like != nil {
		// Find the columns by those of the table like.
		used := map[int]bool{}
		c := &columns{header: header, id: l.named(header, l.id), weight: l.named(header, l.weight), spare: l.like.spare}
		for i, want := range l.like.Columns {
			j, ok := seen[want]
			if !ok {
				return fail("give both files the same columns", "the feature columns are not those of %s: feature %d, %s, is missing", l.like.File, i, option.Quote(want))
			}
			c.features, used[j] = append(c.features, j), true
		}
		for _, want := range l.like.targets {
			if j, ok := seen[want]; ok {
				c.target, used[j] = append(c.target, j), true
			}
		}
		if n := len(c.target); n != 0 && n != len(l.like.targets) {
			return fail("give all of them, or none where the targets are unknown", "%d of the target columns %s", n, option.QuoteList(l.like.targets))
		}
		for j, h := range header {
			if j == c.id || j == c.weight || used[j] || slices.Contains(l.like.all, h) {
				continue
			}
			remedy := option.Text("leave it out, or name it as the ID if it names the rows")
			if c.target == nil {
				remedy = option.Textf("call it %s if it is the target, name it as the ID if it names the rows, else leave it out", option.QuoteList(l.like.targets))
			}
			return fail(remedy, "column %s is not in %s", option.Quote(h), l.like.File)
		}
		return c, nil
	}
	if len(header) < 2 {
		return fail("give at least one feature and a target, separated by commas, semicolons or tabs", "one column only")
	}
	c := &columns{header: header, id: l.named(header, l.id), weight: l.named(header, l.weight)}
	for _, of := range []struct {
		name string
		at   int
	}{{l.id, c.id}, {l.weight, c.weight}} {
		if of.name != "" && of.at < 0 {
			return fail(option.Textf("choose from %s", option.QuoteList(header)), "there is no column %s", option.Quote(of.name))
		}
	}
	if c.id >= 0 && c.id == c.weight {
		return fail("name each column once", "column %s is asked for twice, as the ID and as the weights", option.Quote(l.id))
	}
	own := func(j int) bool { return j == c.id || j == c.weight }
	if j := slices.Index(header, l.target); l.target != "" && j >= 0 && !own(j) {
		c.target = []int{j}
	} else if l.target == "" {
		last := len(header) - 1
		for last > 0 && own(last) {
			last--
		}
		c.target = []int{last}
	} else {
		for field := range strings.SplitSeq(l.target, ",") {
			j := slices.Index(header, strings.TrimSpace(field))
			if j < 0 {
				return fail(option.Textf("choose from %s", option.QuoteList(header)), "there is no column %s", option.Quote(strings.TrimSpace(field)))
			}
			if own(j) || slices.Contains(c.target, j) {
				return fail("name each column once", "column %s is asked for twice, as a target and as a target, the ID or the weights", option.Quote(header[j]))
			}
			c.target = append(c.target, j)
		}
	}
	for j := range header {
		if !own(j) && !slices.Contains(c.target, j) {
			c.features = append(c.features, j)
		}
	}
	if len(c.features) == 0 {
		return fail("name fewer targets", "no column is left for the features")
	}
	if l.spare != nil {
		c.spare = l.spare(c.table(name).Columns)
	}
	return c, nil
}

// named returns the position of a column, or -1 if the header lacks it or name is "".
func (l *layout) named(header []string, name string) int {
	if name == "" {
		return -1
	}
	return slices.Index(header, name)
}

// isRow reports whether a header line is a row of numbers. That is so if all fields are numbers, or if all but one
// are and they do not ascend; names such as 2019,2020 or 400.5,401 ascend.
func isRow(header []string, comma rune) bool {
	n := numbers(header, comma)
	if n == len(header) {
		return true
	}
	if n < 2 || n < len(header)-1 {
		return false
	}
	last := math.Inf(-1)
	for _, field := range header {
		v, err := parseFloat(field, comma)
		if err == nil && !(v > last) {
			return true
		}
		if err == nil {
			last = v
		}
	}
	return false
}
