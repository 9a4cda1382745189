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

// partNames are the names of the parts of data, in their order.
var partNames = [3]string{"train", "valid", "test"}

// openTables reads files of columns or of arrays. Their rows are training rows, unless a split divides them into
// parts or a .npz file has arrays for other parts. Separate files may hold the validation and the test rows, with or
// without targets.
func openTables(ctx context.Context, path string, arrays bool, o *OpenOptions) (*Data, error) {
	stem, _ := csvStem(path)
	if arrays {
		stem = strings.TrimSuffix(path, filepath.Ext(path))
	}
	if arrays && o.Split != nil {
		return nil, &Error{File: path, Problem: "a split was asked for", Remedy: "splits need data from a .csv file; save the parts as arrays x_train, x_valid and x_test"}
	}
	l := layout{target: o.Target, id: o.ID, weight: o.Weights, names: o.ClassNames, real: o.RealTargets, spare: o.Spare}
	var tables [3]*table
	for i, file := range [3]string{path, o.ValidFile, o.TestFile} {
		endings := slices.Clone(partEndings[i])
		switch {
		case file != "":
			endings = append(endings, "", "_train")
		case arrays && isArchive(path):
			file = path
		default:
			tables[i] = newTable(path)
			continue
		}
		var err error
		if arrays {
			tables[i], err = o.readArrays(ctx, file, l, endings)
		} else {
			tables[i], err = o.readTable(ctx, file, l)
		}
		if err != nil {
			return nil, err
		}
		l.like = tables[0]
	}
	t := tables[0]
	d := &Data{Name: filepath.Base(stem), Source: path, Columns: t.Columns, AllColumns: t.all, ID: o.ID, Weights: o.Weights, LastTarget: o.Target == "" && IsCSV(path)}
	if t.Shape == nil {
		d.Target, d.TargetColumns = strings.Join(t.targets, ", "), t.targets
	}
	var split map[string][]int
	if o.Split != nil {
		if len(t.files) > 1 {
			return nil, &Error{File: path, Problem: "a split was asked for", Remedy: "splits are of one file; name the files of each part"}
		}
		var err error
		if split, err = readSplit(ctx, path, *o.Split, t.n); err != nil {
			return nil, err
		}
		d.Source = fmt.Sprintf("%s (split %d)", path, *o.Split)
		tables = [3]*table{t, t, t}
	}
	for _, t := range tables {
		d.Notes = append(d.Notes, t.Notes...)
	}
	slices.Sort(d.Notes)
	d.Notes = slices.Compact(d.Notes)
	if !arrays && !o.RealTargets && len(t.targets) > 1 {
		d.takeOneHot(tables[:])
	}
	return d.take(tables, split, o.ClassNames)
}

// takeOneHot turns targets of several columns into labels if every row of every part is one-hot, and into soft labels
// if every row holds shares that sum to 1.
func (d *Data) takeOneHot(tables []*table) {
	width, note := len(d.TargetColumns), oneHotNote
	labels := map[*table][]float64{}
	for _, t := range tables {
		if t.n == 0 || t.Targets == nil {
			continue
		}
		if labels[t] = oneHot(t.Targets, width); labels[t] != nil {
			continue
		}
		if labels[t] = largestShares(t.Targets, width); labels[t] == nil {
			return
		}
		note = SharesNote
	}
	for t, y := range labels {
		if note == SharesNote {
			t.Shares = t.Targets
		}
		t.Targets, t.targets, t.kinds = y, []string{d.Target}, width
	}
	d.OneHot = d.TargetColumns
	d.Notes = append(d.Notes, note)
}

// Columns returns the header of a CSV file. For several files it is the header of the first.
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

// take builds the parts of the data from their tables. A split that is not nil lists the rows of each part. Targets
// are labels if all of them are words or integers.
func (d *Data) take(tables [3]*table, split map[string][]int, names []string) (*Data, error) {
	var err error
	if d.Names, err = classNames(tables[:], names); err != nil {
		return nil, err
	}
	// Targets are labels if each row of each part has one, and it is an integer.
	d.IntegerLabels = d.Names != nil || !slices.ContainsFunc(tables[:], func(t *table) bool {
		return len(t.targets) > 1 ||
			slices.ContainsFunc(t.Targets, func(y float64) bool { return y != math.Trunc(y) || math.Abs(y) > math.MaxInt32 })
	})
	d.kinds = tables[0].kinds
	for i, s := range []**Rows{&d.Train, &d.Valid, &d.Test} {
		*s = tables[i].part(d, partNames[i], split[partNames[i]])
	}
	return d.finish()
}

// classNames returns the words of all tables together with names, sorted and without repetition. It
// returns nil if the targets are numbers.
func classNames(tables []*table, names []string) ([]string, error) {
	first, all := tables[0], []string(nil)
	for _, t := range tables {
		kind, other := "words", "numbers"
		if first.words != nil {
			kind, other = other, kind
		}
		if first.words == nil && t.words != nil || first.words != nil && t.Targets != nil {
			return nil, &Error{File: t.File, Problem: fmt.Sprintf("its targets are %s, but those of %s are %s", kind, first.File, other), Remedy: "write both in one way"}
		}
		all = append(all, t.words...)
	}
	if first.words == nil {
		return nil, nil
	}
	for _, name := range names {
		all = append(all, norm.NFC.String(name))
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}
