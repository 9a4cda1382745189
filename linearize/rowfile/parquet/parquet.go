// Package parquet reads ranges of rows from Apache Parquet files. A program that imports it can open such files by
// rowfile.Open, and wherever funcgp opens data by range:
//
//	import _ "github.com/funcgp/funcgp/linearize/rowfile/parquet"
//
//	files, err := rowfile.Open(ctx, os.DirFS("data"), "part-*.parquet", &rowfile.Options{Target: "price"})
//
// Columns have integers, floating point numbers, truth values or text. A missing value, an integer that a float64
// cannot represent, and columns of lists, decimals and times are errors. Of each column, one page at a time is in
// memory.
//
// The package is a module of its own, so that programs that do not import it do not depend on its decoder,
// github.com/parquet-go/parquet-go.
package parquet

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sort"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"

	"github.com/funcgp/funcgp/linearize/rowfile"
)

func init() { rowfile.Register(".parquet", Open) }

// A table is a Parquet file.
type table struct {
	groups  []parquet.RowGroup
	ends    []int // row after the last of each group
	names   []string
	columns []*column
}

var _ rowfile.Table = (*table)(nil)

// A column is a column of numbers or text, with the page that was read last.
type column struct {
	name   string
	leaf   int // its index among the file's leaf columns
	kind   parquet.Kind
	signed bool
	text   bool

	group, first int // row group of the page, and row of its first value
	pages        parquet.Pages
	floats       []float64
	strings      []string
}

// Open reads the metadata of a Parquet file with size bytes. The error says what is wrong with the file.
func Open(file io.ReaderAt, size int64) (out rowfile.Table, err error) {
	defer damaged(&err)
	// The library allocates a footer of any stated length, so check the length first.
	var end [8]byte
	if size < 12 {
		return nil, errors.New("it is too short for a Parquet file")
	}
	if _, err := file.ReadAt(end[:], size-8); err != nil && err != io.EOF {
		return nil, err
	}
	if footer := int64(binary.LittleEndian.Uint32(end[:])); string(end[4:]) != "PAR1" || footer > size-12 {
		return nil, errors.New("it does not end as a Parquet file does; it may be incomplete")
	}
	f, err := parquet.OpenFile(file, size, parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, err
	}
	t := &table{groups: f.RowGroups()}
	n := 0
	for _, g := range t.groups {
		k := g.NumRows()
		if k < 0 || k > 1<<40 {
			return nil, fmt.Errorf("it has a group of %d rows", k)
		}
		n += int(k)
		t.ends = append(t.ends, n)
	}
	for _, path := range f.Schema().Columns() {
		leaf, _ := f.Schema().Lookup(path...)
		c, err := columnOf(strings.Join(path, "."), leaf)
		if err != nil {
			return nil, err
		}
		t.names, t.columns = append(t.names, c.name), append(t.columns, c)
	}
	return t, nil
}

// damaged turns a panic of the decoder into an error.
func damaged(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("it is damaged: %v", p)
	}
}

// columnOf returns the column of a leaf, or an error for a type other than numbers or text.
func columnOf(name string, leaf parquet.LeafColumn) (*column, error) {
	c := &column{name: name, leaf: leaf.ColumnIndex, signed: true}
	kind := leaf.Node.Type()
	c.kind = kind.Kind()
	refuse := func(what string) (*column, error) {
		return nil, fmt.Errorf("column %q holds %s, which are not read; save numbers or text", name, what)
	}
	if leaf.MaxRepetitionLevel > 0 {
		return refuse("lists")
	}
	logical, converted := kind.LogicalType(), kind.ConvertedType()
	switch {
	case logical != nil && logical.Value != nil:
		switch l := logical.Value.(type) {
		case *format.IntType:
			c.signed = l.IsSigned
		case *format.StringType, *format.EnumType:
		default:
			return refuse("values of the type " + logical.String())
		}
	case converted != nil: // files of older writers
		switch *converted {
		case deprecated.UTF8, deprecated.Enum, deprecated.Int8, deprecated.Int16, deprecated.Int32, deprecated.Int64:
		case deprecated.Uint8, deprecated.Uint16, deprecated.Uint32, deprecated.Uint64:
			c.signed = false
		default:
			return refuse(fmt.Sprintf("values of the converted type %d", *converted))
		}
	}
	switch c.kind {
	case parquet.Boolean, parquet.Int32, parquet.Int64, parquet.Float, parquet.Double:
	case parquet.ByteArray:
		c.text = true
	default:
		return refuse("values of the type " + kind.String())
	}
	return c, nil
}

// Len implements rowfile.Table.
func (t *table) Len() int {
	if len(t.ends) == 0 {
		return 0
	}
	return t.ends[len(t.ends)-1]
}

// Columns implements rowfile.Table.
func (t *table) Columns() []string { return t.names }

// IsText implements rowfile.Table.
func (t *table) IsText(column int) bool { return t.columns[column].text }

// ReadFloats implements rowfile.Table.
func (t *table) ReadFloats(ctx context.Context, dst []float64, column, lo int) error {
	c := t.columns[column]
	return t.read(ctx, c, len(dst), lo, func(at, from, to int) { copy(dst[at:], c.floats[from:to]) })
}

// ReadText implements rowfile.Table.
func (t *table) ReadText(ctx context.Context, dst []string, column, lo int) error {
	c := t.columns[column]
	return t.read(ctx, c, len(dst), lo, func(at, from, to int) { copy(dst[at:], c.strings[from:to]) })
}

// read calls take for parts of the rows lo to lo+n−1 of a column: at is the position of a part among these rows,
// and from and to are its ends in the page.
func (t *table) read(ctx context.Context, c *column, n, lo int, take func(at, from, to int)) (err error) {
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	defer damaged(&err)
	for at := 0; at < n; {
		if err := ctx.Err(); err != nil {
			return err
		}
		row := lo + at
		if row < c.first || row >= c.first+c.len() {
			if err := t.load(c, row); err != nil {
				return err
			}
		}
		from := row - c.first
		to := min(c.len(), from+n-at)
		take(at, from, to)
		at += to - from
	}
	return nil
}

func (c *column) len() int { return max(len(c.floats), len(c.strings)) }

// load reads the page with the given row, unless it is loaded; values before the row may be left out.
func (t *table) load(c *column, row int) error {
	g := sort.SearchInts(t.ends, row+1)
	begin := 0
	if g > 0 {
		begin = t.ends[g-1]
	}
	if c.pages == nil || c.group != g || row != c.first+c.len() {
		c.close()
		c.pages, c.group = t.groups[g].ColumnChunks()[c.leaf].Pages(), g
		if err := c.pages.SeekToRow(int64(row - begin)); err != nil {
			return err
		}
	}
	page, err := c.pages.ReadPage()
	if err == io.EOF {
		err = fmt.Errorf("column %q ends before row %d", c.name, row)
	}
	if err != nil {
		return err
	}
	defer parquet.Release(page)
	c.first, c.floats, c.strings = row, c.floats[:0], c.strings[:0]
	return c.decode(page)
}

// decode reads the values of a page into c.
func (c *column) decode(page parquet.Page) error {
	r := page.Values()
	buf := make([]parquet.Value, 1024)
	for {
		n, err := r.ReadValues(buf)
		for _, v := range buf[:n] {
			if v.IsNull() {
				return fmt.Errorf("row %d: the value of column %q is missing; fill it in or leave the row out", c.first+c.len(), c.name)
			}
			if c.text {
				c.strings = append(c.strings, strings.TrimSpace(string(v.ByteArray())))
				continue
			}
			x, exact := c.number(v)
			if !exact {
				return fmt.Errorf("row %d: %v in column %q cannot be represented as a float64", c.first+c.len(), v, c.name)
			}
			c.floats = append(c.floats, x)
		}
		if errors.Is(err, io.EOF) {
			if c.len() == 0 {
				return fmt.Errorf("column %q has an empty page", c.name)
			}
			return nil
		}
		if err != nil {
			return err
		}
		if n == 0 {
			return io.ErrNoProgress
		}
	}
}

// number returns a value as a float64. exact is false if a float64 cannot represent it.
func (c *column) number(v parquet.Value) (x float64, exact bool) {
	switch c.kind {
	case parquet.Boolean:
		if v.Boolean() {
			return 1, true
		}
		return 0, true
	case parquet.Int32:
		if !c.signed {
			return float64(v.Uint32()), true
		}
		return float64(v.Int32()), true
	case parquet.Int64:
		if !c.signed {
			x = float64(v.Uint64())
			return x, x < 1<<64 && uint64(x) == v.Uint64()
		}
		x = float64(v.Int64())
		return x, x < 1<<63 && int64(x) == v.Int64()
	case parquet.Float:
		return float64(v.Float()), true
	}
	return v.Double(), true
}

// close discards the page.
func (c *column) close() {
	if c.pages != nil {
		_ = c.pages.Close() // it was only read, and its errors are known
	}
	c.pages, c.floats, c.strings = nil, c.floats[:0], c.strings[:0]
}
