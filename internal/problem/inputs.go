package problem

import (
	"context"
	"math"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/console"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/internal/inputfile"
	"github.com/funcgp/funcgp/internal/picture"
)

// RowFlags say which rows to predict or explain.
type RowFlags struct {
	index     string
	testIndex string
	all       bool
	input     string
	invert    string
	rows      []int // parsed from index by Check
}

// mostListed bounds the rows of --index.
const mostListed = 1 << 20

// Add defines the flags for a verb, which takes fallback where none is given.
func (s *RowFlags) Add(c *cobra.Command, verb, fallback string) {
	f := c.Flags()
	f.StringVar(&s.index, "index", "", verb+" the test rows of this `LIST`, such as 24 or 1,2,5-9, counted from 0 in the original file (default "+fallback+")")
	f.StringVar(&s.testIndex, "test-index", "", verb+" the test rows listed in `FILE`, one row number a line, in that order")
	f.BoolVar(&s.all, "all", false, verb+" all test rows")
	f.StringVar(&s.input, "input", "", verb+" rows of your own from `FILE`, a folder of pictures, or - for standard input: a PNG or JPEG picture, CSV (.gz or not) or NumPy's .npy and .npz, with any number of rows")
	f.StringVar(&s.invert, "invert", "", "`yes|no`: pictures of --input are dark ink on light paper or not (default found by their borders, and said)")
	f.Lookup("invert").NoOptDefVal = "yes"
}

// Check refuses flags that are wrong without opening a file.
func (s *RowFlags) Check(c *cobra.Command) error {
	given := ""
	for _, name := range []string{"index", "test-index", "all", "input"} {
		if !c.Flags().Changed(name) {
			continue
		}
		if given != "" {
			return console.Usagef("--%s and --%s exclude each other", given, name)
		}
		given = name
	}
	if s.invert != "" && s.input == "" {
		return console.Usagef("--invert is for --input")
	}
	if s.invert != "" && s.invert != "yes" && s.invert != "no" {
		return console.Usagef("--invert=%s must be yes or no", s.invert)
	}
	if !c.Flags().Changed("index") {
		return nil
	}
	if k, err := strconv.Atoi(s.index); err == nil && k < 0 {
		return console.Usagef("--index %d must be 0 or more", k)
	}
	var ok bool
	if s.rows, ok = ParseRows(s.index, mostListed); !ok {
		return console.Usagef("--index %q must list rows such as 24 or 1,2,5-9", s.index)
	}
	return nil
}

// An Asking is what row flags ask for, for a file. Paths are absolute.
type Asking struct {
	Index, TestIndex, Input, Invert string
	All                             bool
}

// Asking returns what the flags ask for.
func (s *RowFlags) Asking() (a Asking, err error) {
	a = Asking{Index: s.index, All: s.all, Invert: s.invert}
	if a.TestIndex, err = absolute(s.testIndex); err == nil {
		a.Input, err = absolute(s.input)
	}
	return a, err
}

// Flags returns flags that ask for the same.
func (a *Asking) Flags() RowFlags {
	s := RowFlags{index: a.Index, testIndex: a.TestIndex, all: a.All, input: a.Input, invert: a.Invert}
	if a.Index != "" {
		s.rows, _ = ParseRows(a.Index, mostListed)
	}
	return s
}

// Files are the files that the flags name, which no result may replace.
func (s *RowFlags) Files() []console.FlagPath {
	return []console.FlagPath{{Flag: "--test-index", Path: s.testIndex}, {Flag: "--input", Path: s.input}}
}

// Asked are the rows that flags ask for.
type Asked struct {
	*dataset.Subset
	File  string   // of --input, "" for test rows
	Notes []string // what was done to the rows of the file
}

// Select returns the rows that the flags ask for, and where they ask for none the
// first count kept test rows, 0 for all.
func (s *RowFlags) Select(ctx context.Context, c *console.Console, p *Problem, count int) (*Asked, error) {
	o := dataset.SelectOptions{Count: count}
	switch {
	case s.input != "":
		return s.inputs(ctx, c, p)
	case s.rows != nil:
		o = dataset.SelectOptions{Rows: s.rows, From: "--index"}
	case s.testIndex != "":
		rows, err := dataset.ReadRows(ctx, s.testIndex)
		if err != nil {
			return nil, err
		}
		o = dataset.SelectOptions{Rows: rows, From: s.testIndex}
	case s.all:
		o.Count = 0
	}
	rows, err := p.Examples.Test(o)
	return &Asked{Subset: rows}, err
}

// inputs reads the rows of --input, and says what was done to them.
func (s *RowFlags) inputs(ctx context.Context, c *console.Console, p *Problem) (*Asked, error) {
	o := dataset.InputOptions{MaxBytes: gp.MemoryBudget(p.Limits.Memory)}
	switch s.invert {
	case "yes":
		o.Invert = picture.Yes
	case "no":
		o.Invert = picture.No
	}
	if s.input == "-" {
		o.Standard = inputfile.Standard(ctx)
	}
	in, err := p.Read(ctx, s.input, o)
	if err != nil {
		return nil, err
	}
	for _, note := range in.Notes {
		c.Note("%s", note)
	}
	return in, nil
}

// Label is the data's own label or target of row i; NaN where it is unknown, or where
// a row has several.
func Label(rows *dataset.Subset, i int) float64 {
	switch {
	case rows.Labels != nil:
		return float64(rows.Labels[i])
	case rows.Set.Width() == 1:
		return rows.Targets[i]
	}
	return math.NaN()
}
