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

// table is the content of one file: features or pictures, and targets that are numbers, words or
// missing.
type table struct {
	*Rows // the rows in file order; Shape is set for pictures only, and Columns for features; Targets is nil for words

	spare   []bool   // whether each feature is spare, so that its fields need not be numbers; nil for none
	kinds   int      // for one-hot targets, which are labels, the number of targets; else 0
	real    bool     // whether one-hot targets stay numbers
	text    []bool   // whether each feature is spare and has a field that is not a number; nil for none
	all     []string // names of the features before leaveOut; nil if none was left out
	targets []string // names of the target columns; nil if the file has none
	words   []string // the N targets; nil if they are numbers
}

// newTable returns a table without rows for a file.
func newTable(file string) *table { return &table{Rows: noRows("", file)} }

// part returns the rows at these positions, or all rows for nil, as one part of the data.
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

// readCSV reads a header line and rows, which may take at most most bytes of memory; 0 is no limit.
// Features must be finite numbers, and so must targets unless all of them are words.
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
	rows := 1.02 * l.rows // allocate room for all rows, so that none is copied later
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

// words returns a map of the words that may occur as labels, each to itself.
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

// fillFrom appends all records of a file; words holds each word once. If f is not nil, it receives
// the marks of the file, and the features are checked but not kept.
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
		// Append the record. The first target decides whether all targets are words.
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
			t.IDs = append(t.IDs, strings.Clone(strings.TrimSpace(rec[c.id]))) // a part of rec would keep the whole line
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

// isText records that some field of the spare feature k is not a number.
func (t *table) isText(k int) {
	if t.text == nil {
		t.text = make([]bool, len(t.Columns))
	}
	t.text[k] = true
}

// leaveOut removes the spare features that are text from a table. used holds the columns of each file that is read by
// range.
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

// keep appends the elements of v for which kept is true to dst, which may be the beginning of v.
func keep[T any](dst, v []T, kept func(i int) bool) []T {
	for i, e := range v {
		if kept(i) {
			dst = append(dst, e)
		}
	}
	return dst
}

// weightsRemedy says what to do about invalid weights of rows.
const weightsRemedy = "write weights of 0 or more, 1 for a row that counts once"

// utf8Remedy says what to do about text in another encoding.
const utf8Remedy = "save the file in UTF-8 (in Excel, as \"CSV UTF-8\")"
