package dataset

import (
	"context"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"
)

// csvStem returns the path of a CSV file without .csv or .csv.gz; ok is false for
// other files.
func csvStem(path string) (stem string, ok bool) {
	stem = path
	if strings.EqualFold(filepath.Ext(stem), ".gz") {
		stem = stem[:len(stem)-len(".gz")]
	}
	switch ext := filepath.Ext(stem); strings.ToLower(ext) {
	case ".csv", ".tsv":
		return strings.TrimSuffix(stem, ext), true
	}
	return path, false
}

// IsCSV reports whether a file is a CSV file by its name, gzipped or not.
func IsCSV(path string) bool {
	_, ok := csvStem(path)
	return ok
}

// openCSV reads FILE.csv, or several. A split divides its rows into parts; otherwise all of
// them are training rows, and a second file may hold the test rows, with targets
// or without. Another file may hold the validation rows.
func openCSV(ctx context.Context, path string, o *OpenOptions) (*Data, error) {
	t, err := o.readTable(ctx, path, layout{target: o.Target, id: o.ID, weight: o.Weights, names: o.ClassNames, spare: o.Spare})
	if err != nil {
		return nil, err
	}
	stem, _ := csvStem(path)
	d := &Data{Name: filepath.Base(stem), Source: path, Columns: t.columns, Target: strings.Join(t.targets, ", "), TargetColumns: t.targets, ID: o.ID, Weights: o.Weights, LastTarget: o.Target == "" && IsCSV(path), AllColumns: t.all, Notes: t.notes}
	parts := []*part{{name: "train", table: t}, {name: "valid", table: &table{file: path}}, {name: "test", table: &table{file: path}}}
	if o.Split != nil && len(t.files) > 1 {
		return nil, &Error{File: path, Problem: "a split was asked for", Remedy: "splits are of one file; name the files of each part"}
	}
	if o.Split != nil {
		rows, err := readSplit(ctx, path, *o.Split, t.n)
		if err != nil {
			return nil, err
		}
		d.Source = fmt.Sprintf("%s (split %d)", path, *o.Split)
		for _, p := range parts {
			p.table, p.rows = t, rows[p.name]
		}
	}
	for i, file := range []string{"", o.ValidFile, o.TestFile} {
		if file == "" {
			continue
		}
		if parts[i].table, err = o.readTable(ctx, file, layout{id: o.ID, weight: o.Weights, names: o.ClassNames, like: t}); err != nil {
			return nil, err
		}
	}
	if !o.RealTargets && len(t.targets) > 1 {
		d.takeOneHot(parts)
	}
	if err := d.take(parts, o.ClassNames); err != nil {
		return nil, err
	}
	return d.finish()
}

// takeOneHot takes targets of several columns for labels where each row of all parts has a single one, and for soft labels
// where each has shares of 1.
func (d *Data) takeOneHot(parts []*part) {
	width, note := len(d.TargetColumns), oneHotNote
	labels := map[*table][]float64{}
	for _, p := range parts {
		if p.table.n == 0 || p.table.y == nil {
			continue
		}
		if labels[p.table] = oneHot(p.table.y, width); labels[p.table] != nil {
			continue
		}
		if labels[p.table] = largestShares(p.table.y, width); labels[p.table] == nil {
			return
		}
		note = SharesNote
	}
	for t, y := range labels {
		if note == SharesNote {
			t.shares = t.y
		}
		t.y, t.targets, t.kinds = y, []string{d.Target}, width
	}
	d.OneHot = d.TargetColumns
	d.Notes = append(d.Notes, note)
}

// Columns returns the header of a CSV file; several have the header of the first.
func Columns(ctx context.Context, path string) ([]string, error) {
	path = FilesOf(path)[0]
	f, err := openFile(ctx, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	header, err := newRecords(f, path).next()
	if err != nil && err != io.EOF {
		return nil, err
	}
	return trimAll(header), nil
}

// part is the rows of a table that are one part of the data; nil means all.
type part struct {
	name  string
	table *table
	rows  []int
}

// take makes the sets of the data from their tables. Targets are labels where all
// of them are words or integers.
func (d *Data) take(parts []*part, names []string) error {
	var err error
	if d.Names, err = classNames(parts, names); err != nil {
		return err
	}
	// Whether there is one target a row, an integer in every row of every part
	d.IntegerLabels = d.Names != nil || !slices.ContainsFunc(parts, func(p *part) bool {
		return len(p.table.targets) > 1 ||
			slices.ContainsFunc(p.table.y, func(y float64) bool { return y != math.Trunc(y) || math.Abs(y) > math.MaxInt32 })
	})
	d.kinds = parts[0].table.kinds
	for i, s := range []**Rows{&d.Train, &d.Valid, &d.Test} {
		*s = parts[i].set(d)
	}
	return nil
}

// classNames returns the words of all parts with the given ones, sorted and
// each once, or nil where the targets are numbers.
func classNames(parts []*part, names []string) ([]string, error) {
	first := parts[0].table
	if first.words == nil {
		for _, p := range parts {
			if p.table.words != nil {
				return nil, &Error{File: p.table.file, Problem: fmt.Sprintf("its targets are words, but those of %s are numbers", first.file), Remedy: "write both in one way"}
			}
		}
		return nil, nil
	}
	var all []string
	for _, name := range names {
		all = append(all, norm.NFC.String(name))
	}
	for _, p := range parts {
		if p.table.y != nil {
			return nil, &Error{File: p.table.file, Problem: fmt.Sprintf("its targets are numbers, but those of %s are words", first.file), Remedy: "write both in one way"}
		}
		all = append(all, p.table.words...)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// set returns the rows of the part, with labels as the data have them.
func (p *part) set(d *Data) *Rows {
	t := p.table
	s := &Rows{Part: p.name, File: t.file, files: t.files, Shape: t.shape, Targets: t.y, Shares: t.shares, IDs: t.ids, Weights: t.weights,
		n: t.n, fileRows: t.n, inputs: &inputs{x: t.x, far: t.far}}
	if t.shape == nil {
		s.Shape = []int{len(t.columns)}
	}
	if t.px != nil {
		s.px = storedPixels{t.px, size(s.Shape)}
	}
	s.findRange()
	if t.words != nil || d.IntegerLabels && t.y != nil {
		s.Labels = make([]int, t.n)
	}
	for i := range s.Labels {
		if t.words == nil {
			s.Labels[i] = int(t.y[i])
		} else {
			s.Labels[i], _ = slices.BinarySearch(d.Names, t.words[i])
		}
	}
	if p.rows == nil {
		return s
	}
	return s.At(p.rows)
}
