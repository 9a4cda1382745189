package dataset

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"sort"
	"sync"

	"github.com/funcgp/funcgp/internal/inputfile"
)

// A rowFile reads ranges of rows of the inputs of one file. It is used by one goroutine at a time.
type rowFile interface {
	// read fills dst with the inputs of the rows from lo on, which must exist. The error is an
	// *Error or the error of a context.
	read(ctx context.Context, dst []float64, lo int) error
}

// byRange reads ranges of rows from files that are joined row by row, when they are needed. It is
// safe for concurrent use.
type byRange struct {
	pool *inputfile.Pool
	dim  int
	grey bool // numbers are grey levels from 0 to 255

	whole bool // grey levels are not divided by 255

	mu    sync.Mutex
	files []rowFile
	ends  []int // the row after the last of each file
}

// newByRange returns a byRange without files. It calls open to open the files that are added later.
func newByRange(open func(name string) (fs.File, error)) *byRange {
	return &byRange{pool: inputfile.NewPool(open)}
}

// add adds a file of n rows.
func (b *byRange) add(f rowFile, n int) {
	b.files, b.ends = append(b.files, f), append(b.ends, b.len()+n)
}

func (b *byRange) len() int {
	if len(b.ends) == 0 {
		return 0
	}
	return b.ends[len(b.ends)-1]
}

// raw fills dst with the numbers of the rows from lo on, unchanged from the files.
func (b *byRange) raw(ctx context.Context, dst []float64, lo int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for k := sort.SearchInts(b.ends, lo+1); len(dst) > 0; k++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		first := 0
		if k > 0 {
			first = b.ends[k-1]
		}
		n := min(len(dst), (b.ends[k]-lo)*b.dim)
		if err := b.files[k].read(ctx, dst[:n], lo-first); err != nil {
			return err
		}
		dst, lo = dst[n:], b.ends[k]
	}
	return nil
}

// read fills dst with the inputs of the rows from lo on.
func (b *byRange) read(ctx context.Context, dst []float64, lo int) error {
	if err := b.raw(ctx, dst, lo); err != nil || !b.grey || b.whole {
		return err
	}
	for i, v := range dst {
		dst[i] = grey[byte(v)]
	}
	return nil
}

// readTo writes the inputs of s into the rows of dst, which are of length D: it reads each run of consecutive rows at
// once, and the runs in the order of the files.
func (b *byRange) readTo(ctx context.Context, s *Rows, dst []float64) error {
	rows := make([]int, s.n)
	order := make([]int, s.n)
	for i := range order {
		rows[i], order[i] = s.place(i), i
	}
	if !slices.IsSorted(rows) {
		sort.SliceStable(order, func(i, j int) bool { return rows[order[i]] < rows[order[j]] })
	}
	for i := 0; i < len(order); {
		j := i + 1
		for j < len(order) && order[j] == order[j-1]+1 && rows[order[j]] == rows[order[j-1]]+1 {
			j++
		}
		at := order[i]
		if err := b.read(ctx, dst[at*b.dim:(at+j-i)*b.dim], rows[at]); err != nil {
			return err
		}
		i = j
	}
	return nil
}

// fileError names the file of an error that is neither an *Error nor the error of a context.
func fileError(file string, err error) error {
	var e *Error
	if err == nil || interrupted(err) || errors.As(err, &e) {
		return err
	}
	problem := "cannot be read"
	if p := (*fs.PathError)(nil); errors.As(err, &p) && p.Op != "read" {
		problem = "cannot be opened"
	}
	return &Error{File: file, Problem: problem, Err: err, Remedy: "check the path and its permissions"}
}

// openStream opens a file with open to read it once from its beginning.
func openStream(ctx context.Context, name string, open func(name string) (fs.File, error)) (io.ReadCloser, error) {
	f, err := open(name)
	if err != nil {
		return nil, fileError(name, err)
	}
	return struct {
		io.Reader
		io.Closer
	}{contextReader{ctx, f}, f}, nil
}
