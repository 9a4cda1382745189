package dataset

import (
	"context"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/text/unicode/norm"

	"github.com/funcgp/funcgp/internal/option"
)

// A TableFile is a file of named columns, in a format that RegisterFormat adds. It is used by one
// goroutine at a time.
type TableFile interface {
	Len() int
	Columns() []string
	IsText(column int) bool
	ReadFloats(ctx context.Context, dst []float64, column, lo int) error // rows [lo, lo+len(dst)) of a column of numbers
	ReadText(ctx context.Context, dst []string, column, lo int) error    // the same for a column of text
}

// formats holds the formats that packages add, by the endings of file names.
var formats sync.Map // of func(file io.ReaderAt, size int64) (TableFile, error)

// RegisterFormat registers open as the reader of tables in files whose names have an ending, such
// as ".parquet". It panics if the ending has a format already.
func RegisterFormat(ending string, open func(file io.ReaderAt, size int64) (TableFile, error)) {
	if isTable("x"+ending) || isNumPy("x"+ending) {
		panic("dataset: the ending " + ending + " has a format")
	}
	formats.Store(strings.ToLower(ending), open)
}

// formatOf returns the function that opens a file of a registered format, or nil.
func formatOf(name string) func(file io.ReaderAt, size int64) (TableFile, error) {
	open, ok := formats.Load(strings.ToLower(filepath.Ext(name)))
	if !ok {
		return nil
	}
	return open.(func(file io.ReaderAt, size int64) (TableFile, error))
}

// A tableRows reads the features of a TableFile.
type tableRows struct {
	name    string
	file    TableFile
	columns *columns
	buf     []float64
}

// read implements rowFile.
func (f *tableRows) read(ctx context.Context, dst []float64, lo int) error {
	d := len(f.columns.features)
	f.buf = slices.Grow(f.buf[:0], len(dst)/d)[:len(dst)/d]
	for j, column := range f.columns.features {
		if f.columns.spare != nil && f.columns.spare[j] && f.file.IsText(column) {
			for i := range f.buf {
				dst[i*d+j] = math.NaN()
			}
			continue
		}
		if err := f.file.ReadFloats(ctx, f.buf, column, lo); err != nil {
			return fileError(f.name, err)
		}
		for i, v := range f.buf {
			if bad(v) && !(f.columns.spare != nil && f.columns.spare[j]) {
				return notFinite(f.name, lo+i, place(column, f.file.Columns()[column]), v)
			}
			dst[i*d+j] = v
		}
	}
	return nil
}

// fill implements columnFile.
func (f *tableRows) fill(ctx context.Context, t *table, c *columns, _ map[string]string, most int64) error {
	fail := func(remedy option.Text, format string, a ...any) error {
		return &Error{File: f.name, Problem: fmt.Sprintf(format, a...), Remedy: remedy}
	}
	f.columns = c
	n, width := f.file.Len(), len(c.target)
	for k, j := range c.features {
		switch {
		case !f.file.IsText(j):
		case c.spare != nil && c.spare[k]:
			t.isText(k)
		default:
			return fail("code words as numbers, name a column of row names as the ID, or leave the column out", "column %s is text", option.Quote(c.header[j]))
		}
	}
	text := func(j int) ([]string, error) {
		v, err := inPieces(n, func(dst []string, lo int) error { return f.file.ReadText(ctx, dst, j, lo) })
		return v, fileError(f.name, err)
	}
	numbers := func(j int) ([]float64, error) {
		v, err := inPieces(n, func(dst []float64, lo int) error { return f.file.ReadFloats(ctx, dst, j, lo) })
		return v, fileError(f.name, err)
	}
	areWords := width == 1 && f.file.IsText(c.target[0])
	switch {
	case n == 0:
		return fail("add data, or leave the file out", "there are no rows")
	case t.n > 0 && width > 0 && areWords != (t.words != nil):
		return fail("write all of them as numbers, or all of them as words", "its targets are not of the kind of those of %s", t.files[0])
	case most > 0 && float64(t.n+n)*rowBytes(width) > float64(most):
		return fail("give fewer rows, or allow more memory", "the targets up to here take more than the %d bytes of memory that may be used", most)
	}
	y := make([]float64, n*width)
	for k, j := range c.target {
		if areWords {
			words, err := text(j)
			if err != nil {
				return err
			}
			for _, word := range words {
				t.words = append(t.words, norm.NFC.String(word))
			}
			y = nil
			break
		}
		if f.file.IsText(j) {
			return fail("name targets that are numbers, or one of words", "column %s is text", option.Quote(c.header[j]))
		}
		column, err := numbers(j)
		if err != nil {
			return err
		}
		for i, v := range column {
			if bad(v) {
				return notFinite(f.name, i, place(j, c.header[j]), v)
			}
			y[i*width+k] = v
		}
	}
	if len(y) > 0 {
		t.Targets = append(t.Targets, y...)
	}
	if c.weight >= 0 {
		column, err := numbers(c.weight)
		if err != nil {
			return err
		}
		for i, v := range column {
			if bad(v) {
				return notFinite(f.name, i, place(c.weight, c.header[c.weight]), v)
			}
			if v < 0 {
				return &Error{File: f.name, Place: fmt.Sprintf("row %d, %s", i, place(c.weight, c.header[c.weight])), Problem: fmt.Sprintf("%v is less than 0", v), Remedy: weightsRemedy}
			}
		}
		t.Weights = append(t.Weights, column...)
	}
	t.n += n
	switch {
	case c.id < 0:
	case f.file.IsText(c.id):
		ids, err := text(c.id)
		if err != nil {
			return err
		}
		t.IDs = append(t.IDs, ids...)
	default:
		ids, err := numbers(c.id)
		if err != nil {
			return err
		}
		for _, v := range ids {
			t.IDs = append(t.IDs, strconv.FormatFloat(v, 'f', -1, 64))
		}
	}
	return nil
}
