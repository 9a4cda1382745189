package main

import (
	"errors"
	"fmt"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dataset"
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

// fault says where numbers of the library's went wrong, and what helps.
func (p place) fault(err error) error {
	const remedy = "check the numbers there, or give another --prior-precision"
	if err == nil {
		return nil
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
