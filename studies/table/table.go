// Package table writes the figures of a study as a CSV file and as Markdown.
package table

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/funcgp/funcgp/internal/atomicfile"
)

// A Table is a list of rows of text under a header.
type Table struct {
	Header []string
	Rows   [][]string
}

// Add appends a row of the Cell of each.
func (t *Table) Add(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = Cell(c)
	}
	t.Rows = append(t.Rows, row)
}

// Cell is the text of a cell: a number with about four digits, NaN as nothing, and anything else as
// fmt prints it.
func Cell(c any) string {
	v, ok := c.(float64)
	switch {
	case !ok:
		return fmt.Sprint(c)
	case math.IsNaN(v):
		return ""
	case v != 0 && (math.Abs(v) < 1e-4 || math.Abs(v) >= 1e4):
		return fmt.Sprintf("%.3g", v)
	case math.Abs(v) >= 10:
		return fmt.Sprintf("%.4g", v)
	}
	return fmt.Sprintf("%.4f", v)
}

// WriteCSV writes the table to a file in dir, which is made where it is not there.
func (t *Table) WriteCSV(dir, name string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(dir, name), func(w io.Writer) error {
		return csv.NewWriter(w).WriteAll(append([][]string{t.Header}, t.Rows...))
	})
}

// Markdown is the table as Markdown.
func (t *Table) Markdown() string {
	var b strings.Builder
	line := func(cells []string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	line(t.Header)
	b.WriteString("|" + strings.Repeat("---|", len(t.Header)) + "\n")
	for _, r := range t.Rows {
		line(r)
	}
	return b.String()
}
