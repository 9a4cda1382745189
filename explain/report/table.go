package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/funcgp/funcgp/explain/result"
)

// A Column is a column of a table: its name, and a function that returns its cell for a row.
type Column[T any] struct {
	Name  string // with the unit, if it has one
	Value func(row T) string
}

// A CSV writes rows as comma-separated values (RFC 4180): a line with the names of the columns, then one line for
// each row.
type CSV[T any] struct {
	columns []Column[T]
	w       *csv.Writer
	line    []string
}

// NewCSV writes the names of the columns and returns a CSV that writes the rows. Call Flush after the last row.
func NewCSV[T any](w io.Writer, columns []Column[T]) (*CSV[T], error) {
	c := &CSV[T]{columns, csv.NewWriter(w), make([]string, len(columns))}
	c.w.UseCRLF = true
	for i := range columns {
		c.line[i] = columns[i].Name
	}
	return c, c.write()
}

// Write appends a row.
func (c *CSV[T]) Write(row T) error {
	for i := range c.columns {
		c.line[i] = c.columns[i].Value(row)
	}
	return c.write()
}

func (c *CSV[T]) write() error { return csvError(c.w.Write(c.line)) }

// Flush writes buffered lines.
func (c *CSV[T]) Flush() error {
	c.w.Flush()
	return csvError(c.w.Error())
}

func csvError(err error) error {
	if err != nil {
		return fmt.Errorf("report: writing CSV: %w", err)
	}
	return nil
}

// exact formats a number so that parsing it gives the same number; NaN becomes "". Integers below
// 1e15 have no exponent.
func exact(f result.Float) string {
	switch v := float64(f); {
	case math.IsNaN(v):
		return ""
	case v == math.Trunc(v) && math.Abs(v) < 1e15:
		return strconv.FormatFloat(v, 'f', -1, 64)
	default:
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
}
