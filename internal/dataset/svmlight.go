package dataset

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// IsSVMLight reports whether a file is in the format of SVMlight and LIBSVM by its name,
// gzipped or not.
func IsSVMLight(path string) bool {
	name := strings.ToLower(path)
	switch filepath.Ext(strings.TrimSuffix(name, ".gz")) {
	case ".svm", ".svmlight", ".libsvm":
		return true
	}
	return false
}

// An svmlightFile holds a file of lines "TARGET INDEX:VALUE …" (Joachims, SVMlight, "Input File Format"; LIBSVM's
// README has the same), whose features are 0 where a line does not name them. Its columns are x1 and so on, from x0 where an index is 0, and at
// the end the target.
type svmlightFile struct {
	lo, hi  int // columns of features are lo to hi−1
	targets []float64
	ends    []int // of each row in index and value
	index   []int32
	value   []float64
}

const (
	svmlightColumns = 1 << 20 // most features
	svmlightTarget  = "target"
)

var _ TableFile = (*svmlightFile)(nil)

// readSVMLight reads a file into at most the given bytes of memory; 0 is no limit.
func readSVMLight(r io.Reader, name string, most int64) (*svmlightFile, error) {
	f := &svmlightFile{lo: 1, hi: 1}
	in := bufio.NewScanner(r)
	in.Buffer(nil, maxRecord)
	line := 0
	fail := func(remedy, format string, a ...any) (*svmlightFile, error) {
		return nil, &Error{File: name, Line: line, Problem: fmt.Sprintf(format, a...), Remedy: remedy}
	}
	number := func(field string) (float64, bool) {
		v, err := strconv.ParseFloat(field, 64)
		return v, err == nil && isDecimal(field) && !bad(v)
	}
	for line = 1; in.Scan(); line++ {
		text, _, _ := strings.Cut(in.Text(), "#")
		fields := strings.Fields(text)
		if len(fields) == 0 {
			continue
		}
		y, ok := number(fields[0])
		if !ok {
			return fail("begin each line with one number", "the target %s is no number", quote(fields[0]))
		}
		before := -1
		for _, field := range fields[1:] {
			key, text, _ := strings.Cut(field, ":")
			if key == "qid" {
				return fail("leave qid out; a network has no groups of rows", "%s is the group of a ranking", quote(field))
			}
			k, err := strconv.Atoi(key)
			v, ok := number(text)
			switch {
			case err != nil || !ok || k < 0:
				return fail("write a line as TARGET INDEX:VALUE INDEX:VALUE", "%s is no index and finite value", quote(field))
			case k <= before:
				return fail("write the indices of a line in ascending order, each once", "index %d stands after index %d", k, before)
			case k >= svmlightColumns:
				return fail("keep fewer features", "index %d is more than the %d features that there may be", k, svmlightColumns)
			}
			before, f.lo, f.hi = k, min(f.lo, k), max(f.hi, k+1)
			f.index, f.value = append(f.index, int32(k)), append(f.value, v)
		}
		f.targets, f.ends = append(f.targets, y), append(f.ends, len(f.index))
		if need := 16*len(f.targets) + 12*len(f.index); most > 0 && int64(need) > most {
			return fail("give fewer rows, or allow more memory", "the rows up to here take more than the %d bytes of memory that may be used", most)
		}
	}
	if err := in.Err(); errors.Is(err, bufio.ErrTooLong) {
		return fail("", "a line of more than %d bytes", maxRecord)
	} else if err != nil {
		return nil, fileError(name, err)
	}
	return f, nil
}

// Len implements TableFile.
func (f *svmlightFile) Len() int { return len(f.targets) }

// Columns implements TableFile.
func (f *svmlightFile) Columns() []string {
	names := make([]string, 0, f.hi-f.lo+1)
	for k := f.lo; k < f.hi; k++ {
		names = append(names, "x"+strconv.Itoa(k))
	}
	return append(names, svmlightTarget)
}

// IsText implements TableFile.
func (f *svmlightFile) IsText(int) bool { return false }

// ReadFloats implements TableFile.
func (f *svmlightFile) ReadFloats(ctx context.Context, dst []float64, column, lo int) error {
	if column == f.hi-f.lo {
		copy(dst, f.targets[lo:])
		return ctx.Err()
	}
	want, from := int32(f.lo+column), 0
	if lo > 0 {
		from = f.ends[lo-1]
	}
	for i := range dst {
		row := f.index[from:f.ends[lo+i]]
		dst[i] = 0
		if k, ok := slices.BinarySearch(row, want); ok {
			dst[i] = f.value[from+k]
		}
		from = f.ends[lo+i]
	}
	return ctx.Err()
}

// ReadText implements TableFile.
func (f *svmlightFile) ReadText(context.Context, []string, int, int) error {
	return errors.ErrUnsupported
}
