package dataset

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// OpenOptions configures Open. Nil and zero values mean the defaults.
type OpenOptions struct {
	Target    string // CSV: the target column, or several separated by commas; default the last one
	ID        string // CSV: the column that names the rows, which is no feature; default none
	Split     *int   // CSV: number of the split in FILE.splits.csv; nil means none
	TestFile  string // CSV: a second file with the test rows, with targets or without; default none
	ValidFile string // CSV: another file with the validation rows; default none
	MaxBytes  int64  // CSV: the most memory that the numbers of a file may take; default no limit

	// ClassNames are words that labels may be beside those that occur, for example
	// classes of a network of which the data have no row. They count only where the
	// targets are words.
	ClassNames []string

	Seed        uint64 // digits: seed of the generator; default 0
	DigitsTrain int    // digits: training rows; default 20000
	DigitsTest  int    // digits: test rows; default 4000

	CacheDir string            // mnist: files are kept in CacheDir/mnist; default the user's cache directory + /funcgp
	Mirrors  []string          // mnist: base URLs, tried in order; default two public ones over https
	MD5      map[string]string // mnist: checksum in hex by file name; default those of the original files
	Timeout  time.Duration     // mnist: the longest wait without a byte from the server; default 30 s
	Client   *http.Client      // mnist: default http.DefaultClient

	// Progress, where not nil, is called for every piece of a download with the
	// stage "downloading FILE" and the bytes so far and in total, which is 0 where
	// the server does not say.
	Progress func(stage string, done, total int)
}

// parquetRemedy says how to read a Parquet file. The library for it in pure Go,
// github.com/parquet-go/parquet-go, brings seven modules, and a program that only
// opens a file with it has 17 MB.
const parquetRemedy = "convert it, for example with pandas.read_parquet(\"data.parquet\").to_csv(\"data.csv\", index=False)"

// names says what Open accepts.
const names = "name digits, mnist, a directory of IDX files, or a .csv, .npy or .npz file"

// Open reads a data set by name: "digits", the built-in synthetic digits
// ("digits:TRAIN" and "digits:TRAIN,TEST" set the number of rows); "mnist",
// downloaded on first use; a directory of IDX files; a CSV file; or NumPy's arrays
// in a .npz file with inputs x and targets y, or in files x.npy and y.npy. "" is
// digits. Write "./digits" for a directory with that name. The error is an *Error
// or, if ctx is done while a file is read, its error.
func Open(ctx context.Context, name string, o *OpenOptions) (*Data, error) {
	if o == nil {
		o = &OpenOptions{}
	}
	csvOnly := o.Target != "" || o.Split != nil || o.TestFile != "" || o.ValidFile != ""
	if o.Split != nil && (o.TestFile != "" || o.ValidFile != "") {
		return nil, &Error{File: name, Problem: "a split and a test or validation file were both asked for", Remedy: "name one of them"}
	}
	open := func() (*Data, error) { return openDir(ctx, name) }
	kind, sizes, _ := strings.Cut(name, ":")
	switch {
	case name == "" || kind == "digits":
		open = func() (*Data, error) { return openDigits(name, sizes, o) }
	case name == "mnist":
		open = func() (*Data, error) { return openMNIST(ctx, o) }
	default:
		info, err := os.Stat(name)
		switch {
		case err != nil:
			return nil, &Error{File: name, Problem: "no such data", Err: err, Remedy: names}
		case info.Mode().IsRegular() && IsCSV(name):
			return openCSV(ctx, name, o)
		case info.Mode().IsRegular() && isNumPy(name):
			return openNumPy(ctx, name, o)
		case info.Mode().IsRegular() && strings.EqualFold(filepath.Ext(name), ".parquet"):
			return nil, &Error{File: name, Problem: "is a Parquet file, which is not read", Remedy: parquetRemedy}
		case !info.IsDir():
			return nil, &Error{File: name, Problem: "is neither a .csv, .npy or .npz file nor a directory", Remedy: names}
		}
	}
	if o.ID != "" {
		return nil, &Error{File: name, Problem: "an ID column was asked for", Remedy: "it needs data from a .csv or .npz file"}
	}
	if csvOnly {
		return nil, &Error{File: name, Problem: "a target, split, test or validation file was asked for", Remedy: "they need data from a .csv or .npz file"}
	}
	return open()
}

// openDigits reads the sizes TRAIN and TRAIN,TEST from the name.
func openDigits(name, sizes string, o *OpenOptions) (*Data, error) {
	n := [2]int{DigitsTrain, DigitsTest}
	for i, v := range [2]int{o.DigitsTrain, o.DigitsTest} {
		if v != 0 {
			n[i] = v
		}
	}
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
			return nil, &Error{File: name, Problem: quote(f) + " is not a number of rows", Remedy: "write digits:TRAIN,TEST"}
		}
		n[i] = v
	}
	for _, v := range n {
		if v < 0 || v > digitsMost {
			return nil, &Error{File: name, Problem: fmt.Sprintf("%d rows of digits", v), Remedy: fmt.Sprintf("ask for 0 to %d", digitsMost)}
		}
	}
	return Digits(o.Seed, n[0], n[1]), nil
}
