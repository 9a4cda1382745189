package main

import (
	"errors"
	"fmt"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/atomicfile"
	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/store"
)

// A place names examples as the user knows them.
type place struct {
	all string             // of all of them
	row func(i int) string // of example i
}

// rowsOf is the place of the rows [lo, hi) of a subset.
func rowsOf(sub *dataset.Subset, lo, hi int) place {
	row := func(i int) string { return fmt.Sprintf("%s: %s row %d", sub.Set.File, sub.Set.Part, sub.Rows[lo+i]) }
	if hi == lo+1 {
		return place{row(0), row}
	}
	return place{fmt.Sprintf("%s: %d %s rows from row %d", sub.Set.File, hi-lo, sub.Set.Part, sub.Rows[lo]), row}
}

// fileOf is the place of a file that holds one example.
func fileOf(path string) place { return place{path, func(int) string { return path }} }

// A placedError names its own place and remedy.
type placedError struct{ err error }

func (e *placedError) Error() string { return e.err.Error() }
func (e *placedError) Unwrap() error { return e.err }

// placedf formats a placedError.
func placedf(format string, args ...any) error { return &placedError{fmt.Errorf(format, args...)} }

// hasPlace tells whether an error names a file or flag and what to do.
func hasPlace(err error) bool {
	_, placed := errors.AsType[*placedError](err)
	_, stored := errors.AsType[*store.Error](err)
	_, written := errors.AsType[*atomicfile.Error](err)
	return placed || stored || written
}

// fault says where numbers of the library's went wrong, and what helps. Errors
// that are of another place already stay as they are.
func (p place) fault(err error) error {
	const remedy = "check the numbers there, or give another --prior-precision"
	if err == nil {
		return nil
	}
	if hasPlace(err) {
		return err
	}
	if e := (*gp.NotFiniteError)(nil); errors.As(err, &e) {
		return fmt.Errorf("%s: the %s (output %d) is %v; %s", p.row(e.Row), e.What, e.Output, e.Value, remedy)
	}
	if e := (*gp.NegativeVarianceError)(nil); errors.As(err, &e) {
		return fmt.Errorf("%s: the variance of output %d is %v; %s", p.row(e.Row), e.Output, e.Variance, remedy)
	}
	if e := (*glm.ValueError)(nil); errors.As(err, &e) {
		return fmt.Errorf("%s: the %s of output %d is %v; %s", p.row(e.Row), e.What, e.Output, e.Value, remedy)
	}
	return fmt.Errorf("%s: %w; %s", p.all, err, remedy)
}
