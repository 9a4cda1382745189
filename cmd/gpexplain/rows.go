package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/funcgp/funcgp/internal/dataset"
)

// chooseRows picks the training rows of the data: those of the saved posterior
// where there is one, else those of the flags, else those that the model
// records if it was trained on these data, else all.
func chooseRows(ctx context.Context, c *console, f *dataFlags, m *model, t *task, d *dataset.Data, saved *savedFile) (*dataset.Subset, error) {
	if saved != nil {
		return saved.trainingRows(t, d)
	}
	o := &dataset.SelectOptions{Classes: t.classes, Count: f.count}
	var err error
	recorded := false
	switch {
	case f.rowsFile != "":
		if o.Rows, err = dataset.ReadRows(ctx, f.rowsFile); err != nil {
			return nil, err
		}
		o.From = f.rowsFile
	case f.count == 0 && m.meta.rows != "":
		if m.meta.data != fingerprint(d.Train) {
			c.warn(fmt.Errorf("%s was trained on other data than %s: the training rows it records are not used", m.name, d.Source))
			break
		}
		if o.Rows, recorded = parseRows(m.meta.rows, d.Train.Len()); !recorded {
			return nil, fmt.Errorf("%s: its metadata entry %s cannot be used; give --train-count or --train-index", m.name, keyRows)
		}
		o.From = m.name
	}
	train, err := d.Train.Select(o)
	if e := (*dataset.Error)(nil); recorded && errors.As(err, &e) {
		e.Remedy = "the model records it as a training row; give --train-count or --train-index for others"
	}
	return train, err
}

// rowNames name examples as the user knows them, for messages.
type rowNames struct {
	all string             // of all of them
	row func(i int) string // of example i
}

// namesOf are the names of the rows [lo, hi) of a subset.
func namesOf(rows *dataset.Subset, lo, hi int) rowNames {
	row := func(i int) string { return fmt.Sprintf("%s: %s row %d", rows.Set.File, rows.Set.Part, rows.Rows[lo+i]) }
	if hi == lo+1 {
		return rowNames{row(0), row}
	}
	return rowNames{fmt.Sprintf("%s: %d %s rows from row %d", rows.Set.File, hi-lo, rows.Set.Part, rows.Rows[lo]), row}
}

// namesOfFile are the names of the one example that a file holds.
func namesOfFile(path string) rowNames { return rowNames{path, func(int) string { return path }} }

// formatRows writes row numbers compactly, for metadata: "3,5,7-9".
func formatRows(rows []int) string {
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

// parseRows reads what formatRows wrote; at most limit rows.
func parseRows(text string, limit int) (rows []int, ok bool) {
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
