package reproduce

import (
	"encoding/csv"
	"fmt"
	"html/template"
	"io"
	"math"
	"strconv"
	"strings"
)

// A Table is shown on the page and written as a CSV file.
type Table struct {
	Name    string // of the file, <study>-<name>.csv
	Caption string
	Head    []string
	Rows    [][]Cell // each as long as Head
	Digits  int      // after the decimal point on the page; 0 means 3, negative none
}

// A Cell is a word, a number, a mean with its standard error, or nothing.
type Cell struct {
	Best bool // stands out on the page

	kind  cellKind
	text  string
	value float64
	se    float64
}

type cellKind int

const (
	nothing cellKind = iota
	word
	number
	whole
	mean
)

// Text is a cell with words.
func Text(s string) Cell { return Cell{kind: word, text: s} }

// Number is a cell with a number; NaN shows a dash.
func Number(v float64) Cell { return Cell{kind: number, value: v} }

// Count is a cell with a whole number, shown without digits after the point.
func Count(n int) Cell { return Cell{kind: whole, value: float64(n)} }

// Mean is a cell with the mean of values and its standard error. No values make an
// empty cell.
func Mean(values []float64) Cell {
	if len(values) == 0 {
		return Cell{}
	}
	m, se := MeanSE(values)
	return Cell{kind: mean, value: m, se: se}
}

// Value is the number of a cell, NaN where it has none.
func (c Cell) Value() float64 {
	if c.numeric() {
		return c.value
	}
	return math.NaN()
}

// numeric tells whether the cell has a number.
func (c Cell) numeric() bool { return c.kind == number || c.kind == whole || c.kind == mean }

// show is the cell as the page has it.
func (c Cell) show(digits int) string {
	switch c.kind {
	case word:
		return c.text
	case number:
		return decimal(c.value, digits)
	case whole:
		return decimal(c.value, 0)
	case mean:
		if math.IsNaN(c.se) {
			return decimal(c.value, digits)
		}
		return decimal(c.value, digits) + " ± " + decimal(c.se, digits)
	}
	return ""
}

// decimal writes a number with this many digits after the point. One that would lose
// all its digits, or is very large, is written with an exponent.
func decimal(v float64, digits int) string {
	switch {
	case math.IsNaN(v):
		return "–"
	case math.IsInf(v, 1):
		return "∞"
	case math.IsInf(v, -1):
		return "−∞"
	case v != 0 && math.Abs(v) < math.Pow10(-digits)/2, math.Abs(v) >= 1e7:
		return minus(strconv.FormatFloat(v, 'e', 1, 64))
	}
	return minus(strconv.FormatFloat(v, 'f', digits, 64))
}

func minus(s string) string { return strings.ReplaceAll(s, "-", "−") }

func (t *Table) digits() int {
	switch {
	case t.Digits == 0:
		return 3
	case t.Digits < 0:
		return 0
	}
	return t.Digits
}

// Shown are the cells as the page has them.
func (t *Table) Shown() [][]template.HTML {
	rows := make([][]template.HTML, len(t.Rows))
	for i, row := range t.Rows {
		for _, c := range row {
			text := template.HTMLEscapeString(c.show(t.digits()))
			class := ""
			if c.numeric() {
				class = "num"
			}
			if c.Best {
				class += " best"
			}
			rows[i] = append(rows[i], template.HTML(fmt.Sprintf("<td class=%q>%s</td>", class, text)))
		}
	}
	return rows
}

// writeCSV writes the numbers in full precision. A column that has means is followed by
// one with their standard errors.
func (t *Table) writeCSV(w io.Writer) error {
	means := make([]bool, len(t.Head))
	for _, row := range t.Rows {
		if len(row) != len(t.Head) {
			panic("reproduce: a row of table " + t.Name + " is not as long as its head")
		}
		for j, c := range row {
			means[j] = means[j] || c.kind == mean
		}
	}
	out := csv.NewWriter(w)
	put := func(cell func(j int) (string, string)) error {
		var fields []string
		for j := range t.Head {
			value, se := cell(j)
			fields = append(fields, value)
			if means[j] {
				fields = append(fields, se)
			}
		}
		return out.Write(fields)
	}
	if err := put(func(j int) (string, string) { return t.Head[j], t.Head[j] + " standard error" }); err != nil {
		return err
	}
	for _, row := range t.Rows {
		if err := put(func(j int) (string, string) { return row[j].plain() }); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// plain are the value and the standard error of a cell in a CSV file.
func (c Cell) plain() (value, se string) {
	full := func(v float64) string {
		if math.IsNaN(v) {
			return ""
		}
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	switch c.kind {
	case word:
		return c.text, ""
	case number, whole:
		return full(c.value), ""
	case mean:
		return full(c.value), full(c.se)
	}
	return "", ""
}
