// Package dataset reads the data that networks are trained on and explained
// with: directories of IDX files, CSV files, NumPy's arrays, MNIST from a cache that
// is filled on first use, and synthetic handwritten digits that need no file at all;
// and the user's own rows to predict, including pictures.
//
//	d, err := dataset.Open(ctx, "digits", nil)
//	if err != nil { … }
//	train, err := d.Train.Select([]int{4, 9}, 3000)
//	if err != nil { … }
//	x := train.Matrix()                         // 3000×784, pixels divided by 255
//	y := train.Targets                          // 0 for a 4, 1 for a 9
//	row, label := train.Index[0], train.Labels[0] // in the original file
//	test, err := d.Test.Pick([]int{4, 9}, []int{17}, "")
//
// A CSV file begins with column names. Its fields are separated by commas,
// semicolons or tabs, and it may be gzipped. Targets that are words are labels: they
// are numbered in sorted order, as scikit-learn's LabelEncoder and torchvision's
// ImageFolder do, and Data.Names has the words, in Unicode's normal form C. Targets that
// look like numbers stay numbers, in quotes or not. A decimal comma is accepted if it cannot be a separator
// of thousands.
//
// Row numbers are 0-based rows of the original file, before any selection.
// Errors are of type *Error: one line with file, place and remedy. Headers are not trusted: readers
// allocate memory only as data arrive.
package dataset
