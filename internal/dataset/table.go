package dataset

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/funcgp/funcgp/internal/option"
)

// table is what one file holds: features or pictures, and targets that are numbers,
// words or missing.
type table struct {
	*Rows // of the file, with Shape of pictures alone and Columns of features, in file order; Targets are nil for words

	spare   []bool   // of each feature: no input takes it, so that its fields need not be numbers; nil where all are taken
	kinds   int      // of rows of targets with a single one, which are labels: their number of targets; 0 for others
	real    bool     // such rows stay numbers
	text    []bool   // of each feature: it is spare, and some field is no number; nil where none is
	all     []string // names of the features before some were left out: see leaveOut; nil where none was
	targets []string // target columns; nil where the file has none
	words   []string // N targets; nil where they are numbers
}

// newTable returns a table of a file without rows.
func newTable(file string) *table { return &table{Rows: noRows("", file)} }

// part returns the rows of the table, or the rows at these places, as one part of the data.
func (t *table) part(d *Data, name string, at []int) *Rows {
	s := *t.Rows
	s.Part, s.Notes, s.fileRows = name, nil, t.n
	if s.Shape == nil {
		s.Shape = []int{len(t.Columns)}
	}
	s.findRange()
	if t.words != nil || d.IntegerLabels && t.Targets != nil {
		s.Labels = make([]int, t.n)
	}
	for i := range s.Labels {
		if t.words == nil {
			s.Labels[i] = int(t.Targets[i])
		} else {
			s.Labels[i], _ = slices.BinarySearch(d.Names, t.words[i])
		}
	}
	if at == nil {
		return &s
	}
	return s.At(at)
}

// layout says which columns of a file are what. like is the table whose columns the
// file has, in any order, with targets or without; nil where it says so itself.
type layout struct {
	target string                        // "" is the last column; several are separated by commas
	id     string                        // "" is none
	weight string                        // "" is none
	names  []string                      // words that labels may be
	real   bool                          // rows of targets with a single one stay numbers
	spare  func(columns []string) []bool // of features: see OpenOptions.Spare; nil where all are taken
	like   *table
	rows   float64 // about how many there are; 0 where nobody knows
}

// width is the number of targets of a row; a table without targets does not say it.
func (l *layout) width() int {
	if l.like != nil {
		return len(l.like.targets)
	}
	return 1 + strings.Count(l.target, ",")
}

// columns are the positions of the columns in a header.
type columns struct {
	header           []string
	features, target []int
	spare            []bool // of each feature, as in a table
	id, weight       int    // -1 where there is none
	grey             bool   // features are grey levels from 0 to 255
}

// readCSV reads a header line and rows, which may take at most the given bytes of
// memory; 0 is no limit. Features are finite numbers, as are targets unless all of
// them are words.
func readCSV(r io.Reader, name string, l layout, most int64) (*table, error) {
	in := newRecords(r, name)
	header, err := in.header()
	if err != nil {
		return nil, err
	}
	c, err := l.find(name, header, in.Comma)
	if err != nil {
		return nil, err
	}
	t := c.table(name)
	rows := 1.02 * l.rows // room for all, so that none is copied
	if d := float64(len(c.features)); most > 0 {
		rows = min(rows, float64(most)/(8*d+rowBytes(len(c.target))))
	}
	t.x = make([]float64, 0, int(rows)*len(c.features))
	if err := t.fillFrom(in, c, l.words(), most, nil); err != nil {
		return nil, err
	}
	if l.like == nil {
		t.leaveOut()
	}
	return t, nil
}

// words returns the words that labels may be, each by itself.
func (l *layout) words() map[string]string {
	words := map[string]string{}
	for _, name := range l.names {
		words[norm.NFC.String(name)] = norm.NFC.String(name)
	}
	return words
}

// header reads the names of the columns.
func (in *records) header() ([]string, error) {
	header, err := in.next()
	if err == io.EOF {
		err = &Error{File: in.name, Problem: "is empty", Remedy: "it should begin with a line of column names"}
	}
	return trimAll(header), err
}

// fillFrom appends all records of a file; words holds each word once. Where f is not
// nil it gets places of the file, and the features are only checked.
func (t *table) fillFrom(in *records, c *columns, words map[string]string, most int64, f *csvFile) error {
	first, bytes := t.n, int64(0)
	for ; ; t.n++ {
		offset := in.start + in.InputOffset()
		rec, err := in.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if err := c.check(in, rec); err != nil {
			return err
		}
		if f != nil && (t.n-first)%markEvery == 0 {
			f.marks = append(f.marks, csvMark{offset, int64(in.line(0))})
		}
		// Append a record to all but the number of rows. The first target says whether all are words.
		for k, j := range c.features {
			v, err := in.feature(c, k, rec)
			if e := (*Error)(nil); errors.As(err, &e) {
				e.Field = c.field(in, rec, j)
			}
			if err != nil {
				return err
			}
			if c.spare != nil && c.spare[k] && math.IsNaN(v) {
				t.isText(k)
			}
			if c.grey && v != float64(byte(min(max(v, 0), 255))) {
				return &Error{File: in.name, Line: in.line(j), Place: place(j, c.header[j]), Problem: option.Quote(rec[j]) + " is not a grey level", Remedy: "write integers from 0 to 255"}
			}
			if t.far == nil {
				t.x = append(t.x, v)
			}
		}
		for _, j := range c.target {
			field := strings.TrimSpace(rec[j])
			word := len(c.target) == 1 && isWord(field, in.Comma)
			if _, known := words[field]; word && !known && isMissing(field) {
				return &Error{File: in.name, Line: in.line(j), Place: place(j, c.header[j]), Problem: option.Quote(field) + " stands for a missing value",
					Remedy: "fill it in or leave the row out, or name it among the classes if it is one"}
			}
			if t.n > 0 && field != "" && word != (t.words != nil) && (word || numbers([]string{field}, in.Comma) == 1) {
				kind, others := "is a number", "words"
				if word {
					kind, others = "is not a number", "numbers"
				}
				return &Error{File: in.name, Line: in.line(j), Place: place(j, c.header[j]), Problem: fmt.Sprintf("%s %s, but the targets above it are %s", option.Quote(field), kind, others),
					Remedy: "write all of them as numbers, or all of them as words"}
			}
			if word && !utf8.ValidString(field) {
				return &Error{File: in.name, Line: in.line(j), Place: place(j, c.header[j]), Problem: option.Quote(field) + " is not in UTF-8", Remedy: utf8Remedy}
			}
			if word {
				field = norm.NFC.String(field)
				if _, ok := words[field]; !ok {
					field = strings.Clone(field)
					words[field] = field
				}
				t.words = append(t.words, words[field])
				continue
			}
			v, err := in.number(j, c.header[j], field)
			if err != nil {
				return err
			}
			t.Targets = append(t.Targets, v)
		}
		if c.id >= 0 {
			t.IDs = append(t.IDs, strings.Clone(strings.TrimSpace(rec[c.id]))) // rec keeps the whole line
		}
		if c.weight >= 0 {
			v, err := in.number(c.weight, c.header[c.weight], strings.TrimSpace(rec[c.weight]))
			if err == nil && v < 0 {
				err = &Error{File: in.name, Line: in.line(c.weight), Place: place(c.weight, c.header[c.weight]), Problem: option.Quote(rec[c.weight]) + " is less than 0", Remedy: weightsRemedy}
			}
			if err != nil {
				return err
			}
			t.Weights = append(t.Weights, v)
		}
		kept := 0
		if f == nil {
			kept = len(c.features)
		}
		bytes += 8*int64(kept) + int64(rowBytes(len(c.target)))
		if c.id >= 0 {
			bytes += 16 + int64(len(rec[c.id]))
		}
		if most > 0 && bytes > most {
			return &Error{
				File: in.name, Line: in.line(0), Problem: fmt.Sprintf("the rows up to here take more than the %d bytes of memory that may be used", most),
				Remedy: "give fewer rows, or allow more memory",
			}
		}
	}
	if t.n == first {
		return &Error{File: in.name, Line: 1, Problem: "there are no rows below the header", Remedy: "add data"}
	}
	return in.checkDecimals()
}

// isText notes that some field of feature k, which no input takes, is no number.
func (t *table) isText(k int) {
	if t.text == nil {
		t.text = make([]bool, len(t.Columns))
	}
	t.text[k] = true
}

// leaveOut leaves out of a table the features that are text, which no input takes. used are the columns of each of the
// files that are read where they are needed.
func (t *table) leaveOut(used ...*columns) {
	if t.text == nil {
		return
	}
	d, drop := len(t.Columns), t.text
	t.x = keep(t.x[:0], t.x, func(i int) bool { return !drop[i%d] })
	kept := func(k int) bool { return !drop[k] }
	left := keep(nil, t.Columns, func(k int) bool { return drop[k] })
	t.Notes = append(t.Notes, "no input takes "+option.QuoteList(left)+", where text stands")
	t.all, t.Columns, t.spare, t.text = t.Columns, keep(nil, t.Columns, kept), keep(nil, t.spare, kept), nil
	for _, c := range used {
		c.features, c.spare = keep(nil, c.features, kept), keep(nil, c.spare, kept)
	}
}

// keep appends some elements of v to dst, which may be the beginning of v.
func keep[T any](dst, v []T, kept func(i int) bool) []T {
	for i, e := range v {
		if kept(i) {
			dst = append(dst, e)
		}
	}
	return dst
}

// field describes field j of a record, which is no number.
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

// check refuses a record with another number of fields than the header, but for empty ones at its end.
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

// find returns the columns of a file with this header: like the columns of another table, or as the layout
// says. The targets are the column named so, else the columns in a list, else the last that is not the ID.
func (l *layout) find(name string, header []string, comma rune) (*columns, error) {
	fail := func(remedy option.Text, format string, a ...any) (*columns, error) {
		return nil, &Error{File: name, Line: 1, Problem: fmt.Sprintf(format, a...), Remedy: remedy}
	}
	for len(header) > 2 && header[len(header)-1] == "" {
		header = header[:len(header)-1] // the line ends in a separator
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
		// Find the columns of a file that has the columns of another table.
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

// named is the position of a column, -1 where the header lacks it and of "".
func (l *layout) named(header []string, name string) int {
	if name == "" {
		return -1
	}
	return slices.Index(header, name)
}

// weightsRemedy says what to do about weights of rows that are none.
const weightsRemedy = "write weights of 0 or more, 1 for a row that counts once"

// utf8Remedy says what to do about text in another encoding.
const utf8Remedy = "save the file in UTF-8 (in Excel, as \"CSV UTF-8\")"

// isRow reports whether a header line is a row of numbers: all of its fields are, or all but one are and they do not
// ascend, as names such as 2019,2020 or 400.5,401 do.
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
