package report

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/funcgp/funcgp/explain/result"
)

// A CSVLayout says which columns a table of predictions has.
type CSVLayout struct {
	Classes []result.Float // labels in the order of the probabilities; nil for a regression
	// ClassNames are the names of Classes, which then stand for their labels; nil
	// means none.
	ClassNames []string
	IDs        bool // whether rows have an ID
	Outputs    int  // C
	Targets    int  // of a regression, whose means are the first outputs; 0 means one for each output
	Intervals  bool // whether rows have an Interval
	Sets       bool // whether rows have a Set
}

// Header returns the names of the columns. For classes: index, label, class,
// probability_L, probability_sd_L and map_probability_L for each label L, mean_c for
// each output c, novelty, novelty_rank, entropy and mutual_information. For a regression of one
// output: index, target, mean, observation_sd, function_sd, expected, map_expected,
// novelty, novelty_rank, entropy and mutual_information. For one of several outputs mean and
// the standard deviations have a column for each, mean_0, mean_1 and so on; where there
// are fewer targets than outputs, the standard deviations have one for each target. Then
// follow interval_lo and interval_hi, or set, with its labels separated by spaces.
// After index comes id, where rows have one.
func (l *CSVLayout) Header() []string {
	h := []string{"index"}
	if l.IDs {
		h = append(h, "id")
	}
	each := func(prefix string, n int, name func(int) string) {
		for i := range n {
			h = append(h, prefix+name(i))
		}
	}
	output := func(c int) string { return "_" + strconv.Itoa(c) }
	if l.Classes != nil {
		class := func(k int) string { return "_" + l.class(l.Classes[k]) }
		h = append(h, "label", "class")
		each("probability", len(l.Classes), class)
		each("probability_sd", len(l.Classes), class)
		each("map_probability", len(l.Classes), class)
		each("mean", l.Outputs, output)
	} else {
		if l.Outputs == 1 {
			output = func(int) string { return "" }
		}
		h = append(h, "target")
		each("mean", l.Outputs, output)
		if l.targets() == 1 {
			output = func(int) string { return "" }
		}
		each("observation_sd", l.targets(), output)
		each("function_sd", l.targets(), output)
		if l.targets() == 1 {
			h = append(h, "expected", "map_expected")
		}
	}
	h = append(h, "novelty", "novelty_rank", "entropy", "mutual_information")
	if l.Intervals {
		h = append(h, "interval_lo", "interval_hi")
	}
	if l.Sets {
		h = append(h, "set")
	}
	return h
}

func (l *CSVLayout) targets() int { return cmp.Or(l.Targets, l.Outputs) }

// class names a label by its class if classes have names, else exactly.
func (l *CSVLayout) class(label result.Float) string {
	if k := slices.Index(l.Classes, label); k >= 0 && k < len(l.ClassNames) {
		return l.ClassNames[k]
	}
	return exact(label)
}

// A CSVWriter writes predictions as a table of comma-separated values (RFC 4180),
// one line a row. Numbers are in full precision. What is unknown is empty.
type CSVWriter struct {
	layout CSVLayout
	w      *csv.Writer
	line   []string
}

// NewCSVWriter writes the header and returns the writer of the rows. Flush ends the
// table.
func NewCSVWriter(w io.Writer, layout CSVLayout) (*CSVWriter, error) {
	c := &CSVWriter{layout: layout, w: csv.NewWriter(w)}
	c.w.UseCRLF = true
	return c, c.write(layout.Header())
}

// Write appends one row. A list of r that does not have as many numbers as the
// layout has columns for it panics, except that a nil list leaves them empty.
func (c *CSVWriter) Write(r *result.PredictedRow) error {
	l, k := &c.layout, len(c.layout.Classes)
	c.line = append(c.line[:0], strconv.Itoa(int(r.Index)))
	if l.IDs {
		c.line = append(c.line, r.ID)
	}
	c.line = append(c.line, l.class(r.Label))
	if l.Classes != nil {
		c.line = append(c.line, l.class(r.Class))
		c.list(r.Probability, k)
		c.list(r.ProbabilitySD, k)
		c.list(r.MAPProbability, k)
		c.list(r.Mean, l.Outputs)
	} else {
		c.list(r.Mean, l.Outputs)
		c.list(r.ObservationSD, l.targets())
		c.list(r.FunctionSD, l.targets())
		if l.targets() == 1 {
			c.line = append(c.line, exact(r.Expected), exact(r.MAPExpected))
		}
	}
	c.line = append(c.line, exact(r.Novelty.Score), exact(r.Novelty.Rank), exact(r.Novelty.Entropy), exact(r.Novelty.MutualInformation))
	if l.Intervals {
		c.list(r.Interval, 2)
	}
	if l.Sets {
		labels := make([]string, len(r.Set))
		for i, k := range r.Set {
			labels[i] = l.class(k)
		}
		c.line = append(c.line, strings.Join(labels, " "))
	}
	return c.write(c.line)
}

func (c *CSVWriter) list(v []result.Float, n int) {
	if v != nil && len(v) != n {
		panic("report: a prediction does not have as many numbers as the table has columns")
	}
	for i := range n {
		if v == nil {
			c.line = append(c.line, "")
		} else {
			c.line = append(c.line, exact(v[i]))
		}
	}
}

func (c *CSVWriter) write(line []string) error {
	if err := c.w.Write(line); err != nil {
		return fmt.Errorf("report: writing CSV: %w", err)
	}
	return nil
}

// Flush writes what is still in the buffer.
func (c *CSVWriter) Flush() error {
	c.w.Flush()
	if err := c.w.Error(); err != nil {
		return fmt.Errorf("report: writing CSV: %w", err)
	}
	return nil
}

// exact formats a number so that it reads back as itself, and NaN as nothing.
// Integers below 1e15 have no exponent.
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
