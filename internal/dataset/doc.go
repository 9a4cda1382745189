// Package dataset reads the data that networks are trained on and explained
// with: directories of IDX files, CSV files, MNIST from a cache that is filled
// on first use, and synthetic handwritten digits that need no file at all.
//
//	d, err := dataset.Open(ctx, "digits", nil)
//	if err != nil { … }
//	train, err := d.Train.Select(&dataset.SelectOptions{Classes: []int{4, 9}, Count: 3000})
//	if err != nil { … }
//	x := train.Matrix()                         // 3000×784, pixels divided by 255
//	y := train.Targets                          // 0 for a 4, 1 for a 9
//	row, label := train.Rows[0], train.Labels[0] // in the original file
//	test, err := d.Test.Select(&dataset.SelectOptions{Classes: []int{4, 9}, Rows: []int{17}})
//
// Row numbers are 0-based rows of the original file, before any selection.
// Errors are of type *Error: one line with file, place and remedy. A header is
// not trusted: readers take memory only as the data arrive.
package dataset
