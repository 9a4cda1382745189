package dataset

import (
	"bufio"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// table is a CSV file of numbers: features and one target.
type table struct {
	columns []string // features, in file order
	target  string
	x       []float64 // N×D, row-major
	y       []float64 // N
}

// openCSV reads FILE.csv. A split divides its rows into parts; otherwise all of
// them are training rows, and a second file may hold the test rows. Another file
// may hold the validation rows.
func openCSV(ctx context.Context, path string, o *OpenOptions) (*Data, error) {
	t, err := readCSVFile(ctx, path, o.Target, o.MaxBytes)
	if err != nil {
		return nil, err
	}
	d := &Data{
		Name: strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)), Source: path,
		Columns: t.columns, Target: t.target, TargetColumns: []string{t.target},
	}
	d.Train, d.Valid, d.Test = t.part("train", path, nil), &Set{Part: "valid", File: path}, &Set{Part: "test", File: path}
	switch {
	case o.Split != nil:
		var rows map[string][]int
		if rows, err = readSplit(ctx, path, *o.Split, len(t.y)); err != nil {
			return nil, err
		}
		d.Source = fmt.Sprintf("%s (split %d)", path, *o.Split)
		d.Train, d.Valid, d.Test = t.part("train", path, rows["train"]), t.part("valid", path, rows["valid"]), t.part("test", path, rows["test"])
	case o.TestFile != "":
		if d.Test, err = t.partOf(ctx, "test", path, o.TestFile, o.MaxBytes); err != nil {
			return nil, err
		}
	}
	if o.ValidFile != "" {
		if d.Valid, err = t.partOf(ctx, "valid", path, o.ValidFile, o.MaxBytes); err != nil {
			return nil, err
		}
	}
	d.labelTargets()
	return d.finish()
}

// part returns some rows of the table as a Set; nil means all.
func (t *table) part(name, file string, rows []int) *Set {
	d := len(t.columns)
	s := &Set{Part: name, File: file, Shape: []int{d}, n: len(t.y), rows: rows, fileRows: len(t.y)}
	if rows == nil {
		s.x, s.Targets = t.x, t.y
		return s
	}
	s.n = len(rows)
	for _, r := range rows {
		s.x = append(s.x, t.x[r*d:(r+1)*d]...)
		s.Targets = append(s.Targets, t.y[r])
	}
	return s
}

// partOf reads another file with the columns of the table, which is in the file
// path, as a Set.
func (t *table) partOf(ctx context.Context, name, path, file string, maxBytes int64) (*Set, error) {
	other, err := readCSVFile(ctx, file, t.target, maxBytes)
	if err != nil {
		return nil, err
	}
	if err := sameColumns(t, other, path, file); err != nil {
		return nil, err
	}
	return other.part(name, file, nil), nil
}

// labelTargets sets Labels where every target of every part is an integer.
func (d *Data) labelTargets() {
	for _, s := range d.parts() {
		for _, y := range s.Targets {
			if y != math.Trunc(y) || math.Abs(y) > math.MaxInt32 {
				return
			}
		}
	}
	d.IntegerLabels = true
	for _, s := range d.parts() {
		s.Labels = make([]int, len(s.Targets))
		for i, y := range s.Targets {
			s.Labels[i] = int(y)
		}
	}
}

func sameColumns(a, b *table, aName, bName string) error {
	if slices.Equal(a.columns, b.columns) {
		return nil
	}
	return &Error{
		File: bName, Line: 1, Problem: fmt.Sprintf("the feature columns are not those of %s: %s", aName, firstDifference(a.columns, b.columns)),
		Remedy: "give both files the same header",
	}
}

func firstDifference(want, got []string) string {
	for i := range min(len(want), len(got)) {
		if want[i] != got[i] {
			return fmt.Sprintf("feature %d is %s, want %s", i, quote(got[i]), quote(want[i]))
		}
	}
	return fmt.Sprintf("%d features, want %d", len(got), len(want))
}

func readCSVFile(ctx context.Context, path, target string, most int64) (*table, error) {
	f, err := openFile(ctx, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readCSV(f, path, target, most)
}

// readCSV reads a header line and rows of finite numbers, which may take at most
// the given bytes of memory; 0 is no limit. target names the target column; ""
// is the last one.
func readCSV(r io.Reader, name, target string, most int64) (*table, error) {
	in := newRecords(r, name)
	header, err := in.next()
	if err == io.EOF {
		return nil, &Error{File: name, Problem: "is empty", Remedy: "it should begin with a line of column names"}
	}
	if err != nil {
		return nil, err
	}
	header = trimAll(header)
	if err := checkHeader(name, header); err != nil {
		return nil, err
	}
	col, err := targetColumn(name, header, target)
	if err != nil {
		return nil, err
	}
	t := &table{target: header[col], columns: slices.Delete(slices.Clone(header), col, col+1)}
	for {
		rec, err := in.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		if len(rec) != len(header) {
			return nil, &Error{
				File: name, Line: in.line(0), Remedy: "give every row one field a column",
				Problem: fmt.Sprintf("%d fields, but the header has %d", len(rec), len(header)),
			}
		}
		if most > 0 && 8*int64(len(t.x)+len(t.y)+len(rec)) > most {
			return nil, &Error{
				File: name, Line: in.line(0), Problem: fmt.Sprintf("the numbers up to here take more than the %d bytes of memory that may be used", most),
				Remedy: "give fewer rows, or allow more memory",
			}
		}
		for j, field := range rec {
			v, err := in.number(j, header[j], field)
			if err != nil {
				return nil, err
			}
			if j == col {
				t.y = append(t.y, v)
			} else {
				t.x = append(t.x, v)
			}
		}
	}
	if len(t.y) == 0 {
		return nil, &Error{File: name, Line: 1, Problem: "there are no rows below the header", Remedy: "add data"}
	}
	return t, nil
}

func trimAll(fields []string) []string {
	out := make([]string, len(fields))
	for i, f := range fields {
		out[i] = strings.TrimSpace(f)
	}
	return out
}

// checkHeader refuses a file without column names, or with too few.
func checkHeader(name string, header []string) error {
	fail := func(problem, remedy string) error {
		return &Error{File: name, Line: 1, Problem: problem, Remedy: remedy}
	}
	if len(header) < 2 {
		return fail("one column only", "give at least one feature and a target, separated by commas")
	}
	if allNumbers(header) {
		return fail("numbers where the column names should be", "begin the file with a header line")
	}
	seen := map[string]int{}
	for j, h := range header {
		if i, ok := seen[h]; ok {
			return fail(fmt.Sprintf("columns %d and %d have the same name %s", i+1, j+1, quote(h)), "rename one")
		}
		seen[h] = j
	}
	return nil
}

func allNumbers(fields []string) bool {
	for _, f := range fields {
		if _, err := strconv.ParseFloat(strings.TrimSpace(f), 64); err != nil {
			return false
		}
	}
	return true
}

func targetColumn(name string, header []string, target string) (int, error) {
	if target == "" {
		return len(header) - 1, nil
	}
	if j := slices.Index(header, target); j >= 0 {
		return j, nil
	}
	return 0, &Error{
		File: name, Line: 1, Problem: "there is no column " + quote(target),
		Remedy: "choose from " + quoteList(header),
	}
}

// quoteList quotes the first names of a list.
func quoteList(names []string) string {
	const most = 12
	var q []string
	for i, n := range names {
		if i == most {
			q = append(q, "...")
			break
		}
		q = append(q, quote(n))
	}
	return strings.Join(q, ", ")
}

// records reads the records of a CSV file. Its errors say where they are.
type records struct {
	*csv.Reader
	name string
	in   *bounded
}

// maxRecord bounds the bytes of one record, so that a file that is no table
// cannot fill the memory.
const maxRecord = 64 << 20

// A bounded reader fails with errLong when no bytes are left.
type bounded struct {
	io.Reader
	left int
}

var errLong = errors.New("too long")

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, errLong
	}
	n, err := b.Reader.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// bom is the byte order mark with which some programs begin a file.
const bom = "\ufeff"

func newRecords(r io.Reader, name string) *records {
	limit := &bounded{r, maxRecord}
	b := bufio.NewReader(limit)
	if head, _ := b.Peek(len(bom)); string(head) == bom {
		_, _ = b.Discard(len(bom)) // peeked, so it is there
	}
	in := &records{csv.NewReader(b), name, limit}
	in.FieldsPerRecord = -1
	in.ReuseRecord = true
	in.TrimLeadingSpace = true
	return in
}

// next returns the next record, which the next call overwrites. The error is
// io.EOF at the end, that of a context that is done, or an *Error.
func (in *records) next() ([]string, error) {
	in.in.left = maxRecord
	rec, err := in.Read()
	if err == nil || err == io.EOF || interrupted(err) {
		return rec, err
	}
	if errors.Is(err, errLong) {
		return nil, &Error{File: in.name, Problem: fmt.Sprintf("a line of more than %d bytes", maxRecord), Remedy: "give a table with one row of numbers a line"}
	}
	e := &Error{File: in.name, Problem: "cannot be read", Err: err}
	var p *csv.ParseError
	if errors.As(err, &p) {
		e.Line, e.Place, e.Problem, e.Err = p.Line, fmt.Sprintf("byte %d of the line", p.Column), p.Err.Error(), nil
		e.Remedy = "write plain CSV: commas between fields, quotes only around whole fields"
	}
	return nil, e
}

// line returns the line of field j of the current record.
func (in *records) line(j int) int {
	l, _ := in.FieldPos(j)
	return l
}

// isDecimal reports whether a field has only the characters of decimal numbers,
// unlike 1_000, 0x1p3, Inf and NaN, which strconv accepts.
func isDecimal(field string) bool {
	for i := range len(field) {
		if c := field[i]; (c < '0' || c > '9') && c != '.' && c != '+' && c != '-' && c != 'e' && c != 'E' {
			return false
		}
	}
	return true
}

// number parses field j, a finite decimal number.
func (in *records) number(j int, column, field string) (float64, error) {
	field = strings.TrimSpace(field)
	v, err := strconv.ParseFloat(field, 64)
	if err == nil && isDecimal(field) && !math.IsNaN(v) && !math.IsInf(v, 0) {
		return v, nil
	}
	e := &Error{File: in.name, Line: in.line(j), Place: fmt.Sprintf("column %d", j+1)}
	if column != "" {
		e.Place += " (" + column + ")"
	}
	switch {
	case field == "":
		e.Problem, e.Remedy = "missing value", "fill it in or leave the row out"
	case err == nil && !math.IsNaN(v) && !math.IsInf(v, 0):
		e.Problem, e.Remedy = quote(field)+" is not a decimal number", "write it as 1000, 0.5 or 1.5e-3"
	case err == nil:
		e.Problem, e.Remedy = quote(field)+" is not finite", "fill it in or leave the row out"
	case errors.Is(err, strconv.ErrRange):
		e.Problem, e.Remedy = quote(field)+" is too large for a float64", "rescale the column"
	default:
		e.Problem, e.Remedy = quote(field)+" is not a number", "code words as numbers, classes as integers"
	}
	return 0, e
}
