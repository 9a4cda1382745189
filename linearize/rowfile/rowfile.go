// Package rowfile reads rows of numbers by range from files that may be larger than memory: CSV
// files and NumPy's .npy files, in any fs.FS.
//
//	files, err := rowfile.Open(ctx, os.DirFS("data"), "x-*.npy", nil) // and y-*.npy beside them
//	if err != nil { … }
//	defer files.Close()
//	lo, hi := shard.Part{Number: 3, Of: 64}.Rows(files.Len())
//	y := files.Targets(lo, hi)
//	x := linearize.NewSource(model, hi-lo, linearize.Tile(outputs), func(i, j int) (*mat.Dense, error) {
//		return files.ReadRows(ctx, lo+i, lo+j)
//	})
//	part, err := shard.Compute(ctx, base, x, y, lik)
//
// The rows of several files are joined in the order of their names. Of .npy files the header is
// read first; of CSV files all rows once, to check them and to find their places. After that
// only the rows that are wanted are read: at their offset where a file is an io.ReaderAt or an
// io.Seeker, else by skipping what is before them. Register adds other formats: package parquet,
// a module of its own, the files of Apache Parquet.
package rowfile

import (
	"context"
	"io"
	"io/fs"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dataset"
)

// Options configures Open. Nil and zero values mean the defaults.
type Options struct {
	Target    string // CSV: the target column, or several with commas between them; default the last. .npy: the file or files of the targets; default y beside x, or labels beside images
	ID        string // CSV: a column that is no feature; default none
	MaxMemory int64  // the most bytes that what is kept in memory, such as targets, may take; default no limit
}

// A Table is a file of columns with names, of a format that is registered. It is used by one
// goroutine at a time.
type Table interface {
	// Len returns the number of rows.
	Len() int
	// Columns returns the names of the columns.
	Columns() []string
	// IsText reports whether a column holds text, and no numbers.
	IsText(column int) bool
	// ReadFloats reads rows [lo, lo+len(dst)) of a column of numbers, which are there. A value
	// that is missing is an error.
	ReadFloats(ctx context.Context, dst []float64, column, lo int) error
	// ReadText does the same with a column of text.
	ReadText(ctx context.Context, dst []string, column, lo int) error
}

// Register makes files whose names have an ending, such as ".parquet", tables that open reads, in
// Open and wherever this program opens data. It is called when a package is initialized, and
// panics if the ending has a format.
func Register(ending string, open func(file io.ReaderAt, size int64) (Table, error)) {
	dataset.RegisterFormat(ending, func(file io.ReaderAt, size int64) (dataset.TableFile, error) { return open(file, size) })
}

// Files are the rows of one or several files. They are safe for concurrent use.
type Files struct {
	data *dataset.Data
	all  *dataset.Subset
}

// Open finds the rows of the files that a name stands for: one; the files of a pattern as path.Match
// has it, in the order of their names; or the files of a list with commas between them. Targets are
// read into memory. A file that is missing between others with numbers, or that has other
// columns, types or lengths than the rest, is an error that names it.
func Open(ctx context.Context, fsys fs.FS, name string, o *Options) (*Files, error) {
	if o == nil {
		o = &Options{}
	}
	d, err := dataset.Open(ctx, name, &dataset.OpenOptions{FS: fsys, ByRange: 1, Target: o.Target, ID: o.ID, MaxBytes: o.MaxMemory})
	if err != nil {
		return nil, err
	}
	all, err := d.Train.Select(nil)
	return &Files{d, all}, err
}

// Len returns N, the number of rows of all files.
func (f *Files) Len() int { return f.all.Len() }

// Shape returns the shape of the inputs of a row: [D] for columns of numbers, or the shape of a
// picture.
func (f *Files) Shape() []int { return f.data.Shape }

// Columns returns the names of the D features; nil for pictures.
func (f *Files) Columns() []string { return f.data.Columns }

// Classes returns what the targets 0, 1, … stand for where the files have words; else nil.
func (f *Files) Classes() []string { return f.data.Names }

// ReadRows reads the inputs of rows [lo, hi), (hi−lo)×D: features as they are in the file, and
// pictures of the type uint8 divided by 255. Rows that are not there, or none, panic. An error
// names the file and the row.
func (f *Files) ReadRows(ctx context.Context, lo, hi int) (*mat.Dense, error) {
	f.check(lo, hi)
	return f.data.Train.Read(ctx, f.all.Pos[lo:hi])
}

// Targets returns the targets of rows [lo, hi), (hi−lo)×T. Rows that are not there, or none,
// panic.
func (f *Files) Targets(lo, hi int) *mat.Dense {
	f.check(lo, hi)
	t := len(f.all.Targets) / f.Len()
	y := mat.NewDense(hi-lo, t, nil)
	copy(y.RawMatrix().Data, f.all.Targets[lo*t:hi*t])
	return y
}

func (f *Files) check(lo, hi int) {
	if lo < 0 || lo >= hi || hi > f.Len() {
		panic("rowfile: rows out of range")
	}
}

// Close closes the files that are open. Rows that are read later open them again.
func (f *Files) Close() error { return f.data.Close() }
