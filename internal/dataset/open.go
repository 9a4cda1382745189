package dataset

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/funcgp/funcgp/internal/option"
)

// OpenOptions configures Open. Nil and zero values mean the defaults.
type OpenOptions struct {
	Target    string // CSV: the target column, or several separated by commas; default the last one
	ID        string // CSV: the column that names the rows, which is no feature; default none
	Weights   string // CSV: the column with the weights of the training rows, which is no feature; default none
	Split     *int   // CSV: number of the split in FILE.splits.csv; nil means none
	TestFile  string // CSV: a second file with the test rows, with or without targets; default none
	ValidFile string // CSV: another file with the validation rows; default none
	MaxBytes  int64  // the most memory that the rows of a file may take; default no limit

	// ByRange, if positive, leaves the inputs of some CSV and .npy files on disk and reads rows
	// when they are needed. It applies to several joined files, and to a single file of at least
	// ByRange bytes or one that would take more than a quarter of MaxBytes. Rows.Read reads them;
	// Rows.Matrix and Rows.Image panic.
	ByRange int64

	FS fs.FS // CSV and .npy: where the files are; default the operating system's

	// ClassNames are labels in addition to the words that occur, for example classes of a network
	// that no row of the data has. They are used only if the targets are words.
	ClassNames []string

	// RealTargets keeps one-hot targets of several columns as numbers. Otherwise they become labels.
	RealTargets bool

	// Spare tells which columns of features are spare, that is not used by any input of the network. Its argument
	// holds the columns other than the targets and the ID. A spare column with a field that is not a number is left
	// out, and a note says so. With nil no column is spare.
	Spare func(columns []string) []bool

	Seed uint64 // digits: seed of the generator; default 0

	// Progress, if not nil, is called for every piece of a download with the stage "downloading
	// FILE", the bytes so far and the total, which is 0 if the server does not say.
	Progress func(stage string, done, total int)
}

// names is the remedy that lists what Open accepts.
const names = "name digits, mnist, a directory of IDX files, or a .csv, .npy or .npz file"

// Open reads a data set by name: "digits", the built-in synthetic digits
// ("digits:TRAIN" and "digits:TRAIN,TEST" set the number of rows); "mnist",
// downloaded on first use; a directory of IDX files; a CSV file; or NumPy's arrays
// in a .npz file with inputs x and targets y, or in files x.npy and y.npy. Several CSV or .npy
// files may be joined row by row: as a pattern of path.Match such as train-*.npy, in the order of
// the names, or as a comma-separated list. "" means digits. Write "./digits" for a directory with
// that name. The error is an *Error or, if ctx is done while a file is read, its error.
func Open(ctx context.Context, name string, o *OpenOptions) (*Data, error) {
	if o == nil {
		o = &OpenOptions{}
	}
	csvOnly := o.Target != "" || o.Split != nil || o.TestFile != "" || o.ValidFile != ""
	if o.Split != nil && (o.TestFile != "" || o.ValidFile != "") {
		return nil, &Error{File: name, Problem: "a split and a test or validation file were both asked for", Remedy: "name one of them"}
	}
	open := func() (*Data, error) { return openDir(ctx, name, o.MaxBytes) }
	kind, sizes, _ := strings.Cut(name, ":")
	switch {
	case name == "" || kind == "digits":
		open = func() (*Data, error) {
			// Read the sizes TRAIN and TRAIN,TEST from the name.
			n := [2]int{DigitsTrain, DigitsTest}
			fields := strings.Split(sizes, ",")
			if sizes == "" {
				fields = nil
			}
			if len(fields) > 2 {
				return nil, &Error{File: name, Problem: "more than two numbers", Remedy: "write digits:TRAIN,TEST"}
			}
			for i, f := range fields {
				v, err := strconv.Atoi(f)
				if err != nil {
					return nil, &Error{File: name, Problem: option.Quote(f) + " is not a number of rows", Remedy: "write digits:TRAIN,TEST"}
				}
				n[i] = v
			}
			for _, v := range n {
				if v < 0 || v > digitsMost {
					return nil, &Error{File: name, Problem: fmt.Sprintf("%d rows of digits", v), Remedy: option.Textf("ask for 0 to %d", digitsMost)}
				}
			}
			return Digits(o.Seed, n[0], n[1]), nil
		}
	case name == "mnist":
		open = func() (*Data, error) { return openMNIST(ctx, newFetcher(o.Progress), o.MaxBytes) }
	default:
		files, several, err := storage{o.FS}.list(name)
		if err != nil {
			return nil, err
		}
		if several {
			// Read files whose rows are joined. All must be of the same kind.
			is := isNumPyFile
			if IsCSV(files[0]) {
				is = IsCSV
			} else if ending := filepath.Ext(files[0]); formatOf(files[0]) != nil {
				is = func(name string) bool { return strings.EqualFold(filepath.Ext(name), ending) }
			}
			for _, file := range files {
				if is(file) {
					continue
				}
				e := &Error{File: file, Problem: "is not a file of the kind of " + files[0], Remedy: "join files of one kind only"}
				if file == files[0] {
					e.Problem, e.Remedy = "is neither a .csv nor a .npy file", "of other kinds name one file"
					if kind := foreignByName(file); kind != nil {
						e = kind.error(file)
					}
				}
				return nil, e
			}
			return openTables(ctx, name, !isTable(files[0]), o)
		}
		info, err := storage{o.FS}.stat(name)
		switch {
		case err != nil:
			return nil, &Error{File: name, Problem: "no such data", Err: err, Remedy: names}
		case info.Mode().IsRegular() && (isTable(name) || isNumPy(name)):
			return openTables(ctx, name, isNumPy(name), o)
		case info.Mode().IsRegular() && foreignByName(name) != nil:
			return nil, foreignByName(name).error(name)
		case !info.IsDir():
			return nil, &Error{File: name, Problem: "is neither a .csv, .npy or .npz file nor a directory", Remedy: names}
		}
	}
	if o.ID != "" {
		return nil, &Error{File: name, Problem: "an ID column was asked for", Remedy: "it needs data from a .csv or .npz file"}
	}
	if o.Weights != "" {
		return nil, &Error{File: name, Problem: "a column of weights was asked for", Remedy: "it needs data from a .csv or .npz file"}
	}
	if csvOnly {
		return nil, &Error{File: name, Problem: "a target, split, test or validation file was asked for", Remedy: "they need data from a .csv or .npz file"}
	}
	return open()
}

// isTable tells whether a file has named columns.
func isTable(name string) bool { return IsCSV(name) || formatOf(name) != nil }

// far returns the files that a name stands for, and whether they are read by range.
func (o *OpenOptions) far(ctx context.Context, name string) (files []string, far bool, err error) {
	files, far, err = storage{o.FS}.list(name)
	if err != nil || far || o.FS != nil || formatOf(files[0]) != nil {
		return files, true, err
	}
	info, err := os.Stat(name)
	if o.ByRange <= 0 || err != nil || !info.Mode().IsRegular() || strings.EqualFold(filepath.Ext(name), ".gz") {
		return files, false, nil
	}
	need := 8 * float64(info.Size()) // of a .npy file at most
	if !isNumPyFile(name) {
		g := storage{}.guess(ctx, files)
		need = 8 * g.rows * float64(g.fields)
	}
	return files, info.Size() >= o.ByRange || o.MaxBytes > 0 && need > float64(o.MaxBytes)/4, nil
}

// held reads the inputs of a table into memory unless they are to be read by range.
func (o *OpenOptions) held(ctx context.Context, t *table, far bool, err error) (*table, error) {
	if err != nil || far && o.ByRange > 0 {
		return t, err
	}
	b := t.far
	n, size := b.len()*b.dim, 8.
	if b.grey {
		size = 1
	}
	if need := size * float64(n); o.MaxBytes > 0 && need > float64(o.MaxBytes) {
		return nil, &Error{File: t.File, Problem: fmt.Sprintf("its %d rows of %d numbers take %.0f bytes of memory, of which %d may be used", b.len(), b.dim, need, o.MaxBytes),
			Remedy: "give fewer rows, or allow more memory"}
	}
	if t.far = nil; b.grey {
		t.px = make([]byte, n)
	} else {
		t.x = make([]float64, n)
	}
	const tile = 1 << 20 // numbers
	for lo := 0; lo < n && err == nil; {
		hi := min(n, lo+max(1, tile/b.dim)*b.dim)
		var part []float64
		if b.grey {
			part = make([]float64, hi-lo)
		} else {
			part = t.x[lo:hi]
		}
		err = b.raw(ctx, part, lo/b.dim)
		for i := lo; b.grey && i < hi; i++ {
			t.px[i] = byte(part[i-lo])
		}
		lo = hi
	}
	if closed := b.pool.Close(); err == nil {
		err = closed
	}
	return t, err
}

// readTable reads a CSV file, or several whose rows are joined.
func (o *OpenOptions) readTable(ctx context.Context, name string, l layout) (*table, error) {
	files, far, err := o.far(ctx, name)
	if err != nil {
		return nil, err
	}
	if far {
		t, err := storage{o.FS}.tablesByRange(ctx, name, files, l, o.MaxBytes)
		return o.held(ctx, t, true, err)
	}
	f, err := openFile(ctx, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	g := storage{}.guess(ctx, files)
	if err := g.plan(name, l.width(), false, o.MaxBytes); err != nil {
		return nil, err
	}
	l.rows = g.rows
	return readCSV(f, name, l, o.MaxBytes)
}
