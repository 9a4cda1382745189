package reproduce

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/funcgp/funcgp/internal/inputfile"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/dataset"
)

// digitsSum is the SHA-256 of the files of openDigits.
func digitsSum(ctx context.Context, dir string) (string, error) {
	var files []string
	for _, name := range []string{"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"} {
		path := filepath.Join(dir, "mnist", name)
		if _, err := os.Stat(path); err != nil {
			path += ".gz"
		}
		files = append(files, path)
	}
	return inputfile.Sum(ctx, files...)
}

// digitsInputs are the inputs of a step that reads the digits of openDigits; nil for a
// quick run.
func digitsInputs(ctx context.Context, o *Options) ([]string, error) {
	if o.Quick {
		return nil, nil
	}
	sum, err := digitsSum(ctx, o.Data)
	return []string{sum}, err
}

// openDigits returns the first rows of MNIST's training and test parts, with pixels
// between 0 and 1, or synthetic digits for a quick run.
func openDigits(ctx context.Context, dir string, quick bool, train, test int) (*Examples, error) {
	name := filepath.Join(dir, "mnist")
	if quick {
		name = fmt.Sprintf("digits:%d,%d", train, test)
	}
	d, err := dataset.Open(ctx, name, nil)
	if err != nil {
		return nil, err
	}
	e := &Examples{}
	for _, part := range []struct {
		from *dataset.Rows
		to   *Rows
		n    int
	}{{d.Train, &e.Train, train}, {d.Test, &e.Test, test}} {
		rows, err := part.from.Select(nil, part.n)
		if err != nil {
			return nil, err
		}
		*part.to = Rows{rows.Matrix(), mat.NewDense(rows.Len(), 1, rows.Targets)}
	}
	return e, nil
}
