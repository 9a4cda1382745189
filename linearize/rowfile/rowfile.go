// Package rowfile reads ranges of rows of numbers from files that may be larger than memory: CSV files and NumPy's
// .npy files, in any fs.FS.
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
// The rows of several files are joined in the order of the files' names. Open reads the header of a .npy file, and
// all rows of a CSV file once, to check them and to find their offsets. After that only the requested rows are
// read: at their offset where a file is an io.ReaderAt or an io.Seeker, and otherwise by skipping what precedes
// them. Register adds other formats; package parquet, a module of its own, adds Apache Parquet.
package rowfile

import (
	"context"
	"io"
	"io/fs"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dataset"
)

// Options are options of Open. Nil and zero fields have their defaults.
type Options struct {
	// Target names the targets. CSV: the target column, or several with commas between them; default the last.
	// .npy: the file or files of the targets; default y beside x, or labels beside images.
	Target    string
	ID        string // CSV: a column that is no feature; default none
	MaxMemory int64  // most bytes kept in memory, such as targets; default no limit
}

// A Table is an open file of named columns in a registered format. One goroutine at a time uses it.
type Table interface {
	// Len returns the number of rows.
	Len() int
	// Columns returns the names of the columns.
	Columns() []string
	// IsText tells whether a column has text and not numbers.
	IsText(column int) bool
	// ReadFloats reads rows lo to lo+len(dst)−1 of a column of numbers. The rows exist. A missing value is an
	// error.
	ReadFloats(ctx context.Context, dst []float64, column, lo int) error
	// ReadText is ReadFloats for a column of text.
	ReadText(ctx context.Context, dst []string, column, lo int) error
}

// Register adds a format: Open, and all of funcgp that opens data, then read files whose names end in ending, such
// as ".parquet", by open. Call it when a package is initialized. It panics if the ending already has a format.
func Register(ending string, open func(file io.ReaderAt, size int64) (Table, error)) {
	dataset.RegisterFormat(ending, func(file io.ReaderAt, size int64) (dataset.TableFile, error) { return open(file, size) })
}

// Files are the rows of one or several files. Several goroutines may use them.
type Files struct {
	data *dataset.Data
	all  *dataset.Rows
}

// Open opens the files that name stands for: one file, the files of a pattern as in path.Match in the order of
// their names, or a list of files with commas between them. It reads the targets into memory. The error names the
// file that is missing from a numbered series, or that has other columns, types or lengths than the rest.
func Open(ctx context.Context, fsys fs.FS, name string, o *Options) (*Files, error) {
	if o == nil {
		o = &Options{}
	}
	d, err := dataset.Open(ctx, name, &dataset.OpenOptions{FS: fsys, ByRange: 1, Target: o.Target, ID: o.ID, MaxBytes: o.MaxMemory})
	if err != nil {
		return nil, err
	}
	all, err := d.Train.Select(nil, 0)
	return &Files{d, all}, err
}

// Len returns N, the number of rows of all files.
func (f *Files) Len() int { return f.all.Len() }

// Shape returns the shape of the inputs of a row: [D] for columns of numbers, or the shape of a picture.
func (f *Files) Shape() []int { return f.data.Shape }

// Columns returns the names of the D features; nil for pictures.
func (f *Files) Columns() []string { return f.data.Columns }

// Classes returns the words for the targets 0, 1, …, or nil where the files have no words as targets.
func (f *Files) Classes() []string { return f.data.Names }

// ReadRows reads the inputs of rows lo to hi−1, (hi−lo)×D. Features have the values in the file, and pictures of
// type uint8 are divided by 255. It panics for an empty range and for rows that do not exist. An error names the
// file and the row.
func (f *Files) ReadRows(ctx context.Context, lo, hi int) (*mat.Dense, error) {
	f.check(lo, hi)
	return f.all.Slice(lo, hi).Read(ctx)
}

// Targets returns the targets of rows lo to hi−1, (hi−lo)×T with T targets in each row. It panics for an empty
// range and for rows that do not exist.
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

// Close closes the open files. Reading rows afterwards opens them again.
func (f *Files) Close() error { return f.data.Close() }
