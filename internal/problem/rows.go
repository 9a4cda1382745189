package problem

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/console"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/linearize/network"
)

// chooseRows picks the training rows of the data: those of the saved posterior
// where there is one, else those of the flags, else those that the model
// records if it was trained on these data, else all.
func chooseRows(ctx context.Context, c *console.Console, f *DataFlags, m *Model, t *Task, d *dataset.Data, saved *SavedFile) (*dataset.Subset, error) {
	if saved != nil {
		return saved.trainingRows(t, d)
	}
	o := &dataset.SelectOptions{Classes: t.Classes, Count: f.count}
	var err error
	recorded := false
	switch {
	case f.rowsFile != "":
		if o.Rows, err = dataset.ReadRows(ctx, f.rowsFile); err != nil {
			return nil, err
		}
		o.From = f.rowsFile
	case f.count == 0 && m.Meta.Rows != "":
		if m.Meta.Data != Fingerprint(d.Train) {
			c.Warn(fmt.Errorf("%s was trained on other data than %s: the training rows it records are not used", m.Name, d.Source))
			break
		}
		if o.Rows, recorded = ParseRows(m.Meta.Rows, d.Train.Len()); !recorded {
			return nil, fmt.Errorf("%s: its metadata entry %s cannot be used; give --train-count or --train-index", m.Name, KeyRows)
		}
		o.From = m.Name
	}
	train, err := d.Train.Select(o)
	if e := (*dataset.Error)(nil); recorded && errors.As(err, &e) {
		e.Remedy = "the model records it as a training row; give --train-count or --train-index for others"
	}
	return train, err
}

// RowNames name examples as the user knows them, for messages.
type RowNames struct {
	All string             // of all of them
	Row func(i int) string // of example i
}

// NamesOf are the names of the rows [lo, hi) of a subset.
func NamesOf(rows *dataset.Subset, lo, hi int) RowNames {
	row := func(i int) string { return fmt.Sprintf("%s: %s row %d", rows.Set.File, rows.Set.Part, rows.Rows[lo+i]) }
	if hi == lo+1 {
		return RowNames{row(0), row}
	}
	return RowNames{fmt.Sprintf("%s: %d %s rows from row %d", rows.Set.File, hi-lo, rows.Set.Part, rows.Rows[lo]), row}
}

// NamesOfFile are the names of the one example that a file holds.
func NamesOfFile(path string) RowNames { return RowNames{path, func(int) string { return path }} }

// FormatRows writes row numbers compactly, for metadata: "3,5,7-9".
func FormatRows(rows []int) string {
	var b strings.Builder
	for i := 0; i < len(rows); {
		j := i
		for j+1 < len(rows) && rows[j+1] == rows[j]+1 {
			j++
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(rows[i]))
		if j > i {
			b.WriteString("-" + strconv.Itoa(rows[j]))
		}
		i = j + 1
	}
	return b.String()
}

// ParseRows reads what FormatRows wrote; at most limit rows.
func ParseRows(text string, limit int) (rows []int, ok bool) {
	for field := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(field, "-")
		lo, err := strconv.Atoi(first)
		hi := lo
		if err == nil && isRange {
			hi, err = strconv.Atoi(last)
		}
		if err != nil || lo < 0 || hi < lo || hi-lo >= limit-len(rows) {
			return nil, false
		}
		for i := range hi - lo + 1 { // lo + i stays in range where hi is the largest int
			rows = append(rows, lo+i)
		}
	}
	return rows, true
}

// ExplainError says at which example numbers of the library's went wrong, and
// what helps. Errors that are about another file or flag stay as they are.
func (n RowNames) ExplainError(err error) error {
	const remedy = "check the numbers there, or give another --prior-precision"
	if err == nil || console.IsFull(err) {
		return err
	}
	if e := (*gp.NotFiniteError)(nil); errors.As(err, &e) {
		return fmt.Errorf("%s: the %s (output %d) is %v; %s", n.Row(e.Row), e.What, e.Output, e.Value, remedy)
	}
	if e := (*gp.NegativeVarianceError)(nil); errors.As(err, &e) {
		return fmt.Errorf("%s: the variance of output %d is %v; %s", n.Row(e.Row), e.Output, e.Variance, remedy)
	}
	if e := (*glm.ValueError)(nil); errors.As(err, &e) {
		return fmt.Errorf("%s: the %s of output %d is %v; %s", n.Row(e.Row), e.What, e.Output, e.Value, remedy)
	}
	index, integer := (*network.IndexError)(nil), (*network.IntegerError)(nil)
	if errors.As(err, &index) || errors.As(err, &integer) {
		return fmt.Errorf("%s: %w", n.All, err)
	}
	return fmt.Errorf("%s: %w; %s", n.All, err, remedy)
}
