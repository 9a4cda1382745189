package dataset

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/funcgp/funcgp/internal/inputfile"
	"github.com/funcgp/funcgp/internal/npy"
)

// A numpyFile reads the rows of a .npy file.
type numpyFile struct {
	name string
	rows *npy.Rows
}

// read implements rowFile.
func (f *numpyFile) read(_ context.Context, dst []float64, lo int) error {
	if err := f.rows.ReadRows(dst, lo); err != nil {
		return numpyError(f.name, err)
	}
	return finite(f.name, dst, f.rows.Dim(), lo, feature)
}

// finite returns an error that names row and column if a number of v is NaN or infinite. v holds the rows of a file
// from lo on.
func finite(file string, v []float64, width, lo int, column func(j int) string) error {
	for i, x := range v {
		if bad(x) {
			return notFinite(file, lo+i/width, column(i%width), x)
		}
	}
	return nil
}

// feature and target describe the columns of arrays, which have no names, by number.
func feature(j int) string { return fmt.Sprintf("feature %d", j) }
func target(j int) string  { return fmt.Sprintf("target %d", j) }

// notFinite returns the error for a number that is NaN or infinite.
func notFinite(file string, row int, column string, x float64) error {
	return &Error{File: file, Place: fmt.Sprintf("row %d, %s", row, column), Problem: fmt.Sprintf("%v is not finite", x), Remedy: "fill it in or leave the row out"}
}

// arraysByRange returns the table of .npy files of inputs. It reads all targets but no inputs yet.
// The headers of the files may differ only in the number of rows.
func (p storage) arraysByRange(ctx context.Context, source string, names []string, l layout, most int64) (*table, error) {
	b := newByRange(p.open)
	var first *npy.Rows
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		file := b.pool.File(name)
		info, err := file.Stat()
		if err != nil {
			return nil, fileError(name, err)
		}
		rows, err := npy.OpenRows(file, info.Size())
		if err != nil {
			return nil, numpyError(name, err)
		}
		if first == nil {
			first = rows
		}
		fail := func(format string, a ...any) (*table, error) {
			return nil, &Error{File: name, Problem: fmt.Sprintf(format, a...), Remedy: "save all files of the inputs alike, and those of the targets under other names"}
		}
		switch {
		case !slices.Equal(rows.Shape[1:], first.Shape[1:]):
			return fail("its rows have shape %v, but those of %s have %v", rows.Shape[1:], names[0], first.Shape[1:])
		case rows.Type != first.Type:
			return fail("its elements are of the type %s, but those of %s of %s", rows.Type, names[0], first.Type)
		case rows.Len() > math.MaxInt32*64-b.len():
			return fail("the files up to here have more rows than can be numbered")
		}
		b.add(&numpyFile{name, rows}, rows.Len())
	}
	b.dim = first.Dim()
	if need := float64(b.len()) * rowBytes(l.width()); most > 0 && need > float64(most) {
		return nil, &Error{File: source, Problem: fmt.Sprintf("what is kept of its %d rows takes %.0f bytes of memory, of which %d may be used", b.len(), need, most), Remedy: "give fewer rows, or allow more memory"}
	}
	t := newTable(source)
	t.files, t.far, t.n, t.real = names, b, b.len(), l.real
	shape := slices.Clone(first.Shape)
	shape[0] = t.n
	if err := t.shapeInputs(shape, first.Type, first.IsBytes()); err != nil {
		return nil, err
	}
	b.grey = t.Shape != nil && first.IsBytes()
	t.nameColumns(b.dim)
	// The targets are in the files that the layout names, otherwise in files beside the inputs.
	var targets []string
	if l.target != "" && l.like == nil {
		var err error
		if targets, _, err = p.list(l.target); err != nil {
			return nil, err
		}
	} else {
		for i, name := range names {
			y := p.neighbour(name)
			if y == "" && len(targets) == 0 {
				continue
			}
			if y == "" || len(targets) < i {
				lacking := name
				if y != "" {
					lacking = names[0]
				}
				return nil, &Error{File: lacking, Problem: "there is no file of its targets beside it, but there is one for others", Remedy: "put it there, or name the files of the targets"}
			}
			targets = append(targets, y)
		}
	}
	if targets == nil && l.like == nil {
		return nil, t.errorf(noTargetsRemedy, "there are no targets")
	}
	for _, of := range []struct {
		name string
		fill func(a *npy.Array) error
	}{{l.id, t.fillIDs}, {l.weight, t.fillWeights}} {
		if of.name == "" || l.like != nil {
			continue
		}
		files, _, err := p.list(of.name)
		if err != nil {
			return nil, err
		}
		a, err := p.joinFiles(ctx, files, most)
		if err != nil {
			return nil, err
		}
		if err := of.fill(a); err != nil {
			return nil, err
		}
	}
	if targets == nil {
		return t, nil
	}
	y, err := p.joinFiles(ctx, targets, most)
	if err != nil {
		return nil, err
	}
	return t, t.fillTargets(y, arrayName(targets))
}

const noTargetsRemedy = "call the inputs x and the targets y, or name the targets"

// arrayName returns the name of targets: the name of their file, or the common beginning of the
// names of several files.
func arrayName(files []string) string {
	name := stem(files[0])
	if len(files) == 1 {
		return name
	}
	for _, file := range files[1:] {
		for !strings.HasPrefix(stem(file), name) {
			name = name[:len(name)-1]
		}
	}
	if name = strings.TrimRight(name, "-_.0123456789"); name == "" {
		return "target"
	}
	return name
}

// joinFiles reads the arrays of several files and stacks their rows.
func (p storage) joinFiles(ctx context.Context, files []string, most int64) (*npy.Array, error) {
	var all *npy.Array
	for _, name := range files {
		in, err := openStream(ctx, name, p.openPlain)
		if err != nil {
			return nil, err
		}
		a, err := npy.Read(bufio.NewReaderSize(in, 1<<16), most)
		in.Close()
		if err != nil {
			return nil, numpyError(name, err)
		}
		if all == nil {
			all = a
			continue
		}
		if len(a.Shape) == 0 || len(all.Shape) == 0 || !slices.Equal(a.Shape[1:], all.Shape[1:]) || (a.Text == nil) != (all.Text == nil) || (a.Bytes == nil) != (all.Bytes == nil) {
			return nil, &Error{File: name, Problem: fmt.Sprintf("has shape %v and the type %s, but %s has rows of shape %v and the type %s", a.Shape, a.Type, files[0], all.Shape[min(1, len(all.Shape)):], all.Type), Remedy: "save all files alike"}
		}
		all.Shape[0] += a.Shape[0]
		all.Floats, all.Bytes, all.Text = append(all.Floats, a.Floats...), append(all.Bytes, a.Bytes...), append(all.Text, a.Text...)
	}
	return all, nil
}

// markEvery is the number of rows between two marks of a CSV file.
const markEvery = 64

// A csvFile reads the rows of a CSV file. It starts at the last mark before the wanted rows, or
// continues where the last read ended.
type csvFile struct {
	name    string
	file    io.ReaderAt // decompressed if it is gzipped
	comma   rune
	columns *columns
	marks   []csvMark // places of every markEvery-th row

	in    *records // positioned after row next−1; nil before the first read
	next  int
	first io.Closer // closes in after fill has read it
}

// fill implements columnFile.
func (f *csvFile) fill(_ context.Context, t *table, c *columns, words map[string]string, most int64) error {
	f.columns = c
	return t.fillFrom(f.in, c, words, most, f)
}

// A csvMark is the place of a row in a CSV file.
type csvMark struct{ offset, line int64 }

// read implements rowFile.
func (f *csvFile) read(ctx context.Context, dst []float64, lo int) (err error) {
	defer func() {
		if err != nil {
			f.in = nil
		}
	}()
	if at := lo / markEvery * markEvery; f.in == nil || lo < f.next || f.next < at {
		mark := f.marks[lo/markEvery]
		f.in = plainRecords(io.NewSectionReader(f.file, mark.offset, math.MaxInt64-mark.offset), f.name, f.comma)
		f.in.before, f.next = int(mark.line)-1, at
	}
	for i := 0; i < len(dst); f.next++ {
		rec, err := f.in.next()
		if err == io.EOF {
			return &Error{File: f.name, Problem: fmt.Sprintf("has become shorter since it was opened: it ends before row %d", f.next), Remedy: "read it again when it is complete"}
		}
		if err != nil {
			return err
		}
		if err := f.columns.check(f.in, rec); err != nil {
			return err
		}
		if f.next < lo {
			continue
		}
		if f.next%markEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		for k := range f.columns.features {
			if dst[i], err = f.in.feature(f.columns, k, rec); err != nil {
				return err
			}
			i++
		}
	}
	return nil
}

// A columnFile is a file of named columns. It is read once completely, and only its features are read again by
// range.
type columnFile interface {
	rowFile
	// fill appends the columns to t, except for the features. words holds each word once, so that
	// equal words share memory. What fill keeps may take at most most bytes.
	fill(ctx context.Context, t *table, c *columns, words map[string]string, most int64) error
}

// openColumns opens a file of a pool, and returns its header and the separator of its fields.
func (p storage) openColumns(ctx context.Context, pool *inputfile.Pool, name string) (f columnFile, header []string, comma rune, err error) {
	if open := formatOf(name); open != nil {
		file := pool.File(name)
		info, err := file.Stat()
		if err != nil {
			return nil, nil, 0, fileError(name, err)
		}
		table, err := open(file, info.Size())
		if err != nil {
			return nil, nil, 0, fileError(name, err)
		}
		return &tableRows{name: name, file: table}, table.Columns(), ',', nil
	}
	in, err := openStream(ctx, name, p.openText)
	if err != nil {
		return nil, nil, 0, err
	}
	r := plainRecords(in, name, 0)
	if header, err = r.header(); err != nil {
		in.Close()
		return nil, nil, 0, err
	}
	return &csvFile{name: name, file: pool.File(name), comma: r.Comma, in: r, first: in}, header, r.Comma, nil
}

// tablesByRange reads files of columns once, and keeps everything but their features in memory.
func (p storage) tablesByRange(ctx context.Context, source string, names []string, l layout, most int64) (*table, error) {
	if IsCSV(names[0]) {
		if err := p.guess(ctx, names).plan(source, l.width(), true, most); err != nil {
			return nil, err
		}
	}
	open := p.openText
	if formatOf(names[0]) != nil {
		open = p.open
	}
	b := newByRange(open)
	var t *table
	var used []*columns
	words := l.words()
	for _, name := range names {
		own := l
		if t != nil && l.like == nil {
			own = layout{id: l.id, weight: l.weight, names: l.names, like: t}
		}
		f, header, comma, err := p.openColumns(ctx, b.pool, name)
		if err != nil {
			return nil, err
		}
		c, err := own.find(name, header, comma)
		if err == nil && t == nil {
			t = c.table(source)
			t.far, t.files = b, names
		}
		if err == nil && (len(c.target) != len(t.targets) || t.n > 0 && (c.id < 0) != (t.IDs == nil)) {
			err = &Error{File: name, Line: 1, Problem: fmt.Sprintf("the target or the ID column of %s is missing", names[0]), Remedy: "give all files the same columns"}
		}
		if err == nil && t.n > 0 && (c.weight < 0) != (t.Weights == nil) {
			err = &Error{File: name, Line: 1, Problem: fmt.Sprintf("the column of weights of %s is missing", names[0]), Remedy: "give all files the same columns"}
		}
		csv, isCSV := f.(*csvFile)
		if e := (*Error)(nil); !isCSV && errors.As(err, &e) {
			e.Line = 0 // files of columns have no lines
		}
		before := 0
		if err == nil {
			used = append(used, c)
			before = t.n
			err = f.fill(ctx, t, c, words, most)
		}
		if isCSV {
			csv.first.Close()
			csv.in, csv.first = nil, nil
		}
		if err != nil {
			return nil, err
		}
		b.add(f, t.n-before)
	}
	if l.like == nil {
		t.leaveOut(used...)
	}
	b.dim = len(t.Columns)
	return t, nil
}

// inPieces reads n values, and allocates memory for them as they arrive.
func inPieces[T any](n int, read func(dst []T, lo int) error) (all []T, err error) {
	for lo := 0; lo < n; lo = len(all) {
		k := min(n-lo, 1<<16)
		all = slices.Grow(all, k)[:lo+k]
		if err := read(all[lo:], lo); err != nil {
			return nil, err
		}
	}
	return all, nil
}
