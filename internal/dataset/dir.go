package dataset

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/funcgp/funcgp/internal/option"
	"github.com/funcgp/funcgp/internal/par"
)

// idxStems are the usual names of MNIST's files; each may end in .gz, and the
// dash before idx may be a dot.
var idxStems = [4]string{
	"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
	"t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte",
}

// openDir reads the IDX files of a directory in parallel. A positive most bounds the bytes of images.
// The training or the test pair may be missing.
func openDir(ctx context.Context, dir string, most int64) (*Data, error) {
	var files [4]idxFile
	for i, stem := range idxStems {
		files[i] = idxFile{stem: stem, path: findIDX(dir, stem)}
	}
	if !slices.ContainsFunc(files[:], func(f idxFile) bool { return f.path != "" }) {
		return nil, &Error{
			File: dir, Problem: "holds no IDX files",
			Remedy: option.Textf("it should hold %s, plain or .gz", strings.Join(idxStems[:], ", ")),
		}
	}
	if err := par.Do(ctx, len(files), func(i int) error {
		if f := &files[i]; f.path != "" {
			f.idx, f.err = readIDXFile(ctx, f.path, []int{3, 1}[i%2], most)
		}
		return nil
	}); err != nil {
		return nil, err
	}
	d := &Data{Name: filepath.Base(dir), Source: dir, IntegerLabels: true, Valid: noRows("valid", dir)}
	var err error
	if d.Train, err = newPair(dir, "train", [2]idxFile(files[:2])); err != nil {
		return nil, err
	}
	if d.Test, err = newPair(dir, "test", [2]idxFile(files[2:])); err != nil {
		return nil, err
	}
	return d.finish()
}

// An idxFile is one of the four files, with its content or the error of reading it. The path is ""
// if the file is missing.
type idxFile struct {
	stem, path string
	*idx
	err error
}

// findIDX returns the path of a file under one of its usual names, or "".
func findIDX(dir, stem string) string {
	for _, name := range []string{stem, strings.Replace(stem, "-idx", ".idx", 1)} {
		for _, ext := range []string{"", ".gz"} {
			path := filepath.Join(dir, name+ext)
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
				return path
			}
		}
	}
	return ""
}

// newPair makes one part of its images and labels; both may be absent.
func newPair(dir, part string, files [2]idxFile) (*Rows, error) {
	x, y := files[0], files[1]
	switch {
	case x.path == "" && y.path == "":
		return noRows(part, dir), nil
	case x.path == "":
		return nil, &Error{File: dir, Problem: fmt.Sprintf("has %s but not %s", filepath.Base(y.path), x.stem), Remedy: "put the missing file there"}
	case y.path == "":
		return nil, &Error{File: dir, Problem: fmt.Sprintf("has %s but not %s", filepath.Base(x.path), y.stem), Remedy: "put the missing file there"}
	case x.err != nil:
		return nil, x.err
	case y.err != nil:
		return nil, y.err
	}
	if x.dims[0] != y.dims[0] {
		return nil, &Error{
			File:    x.path,
			Problem: fmt.Sprintf("%d images, but %d labels in %s", x.dims[0], y.dims[0], filepath.Base(y.path)),
			Remedy:  "take both files from the same source",
		}
	}
	s := &Rows{
		Part: part, File: x.path, Shape: []int{1, x.dims[1], x.dims[2]},
		Labels: make([]int, x.dims[0]), n: x.dims[0], fileRows: x.dims[0], labelFile: y.path,
		inputs: &inputs{px: x.data},
	}
	for i, b := range y.data {
		s.Labels[i] = int(b)
	}
	return s, nil
}
