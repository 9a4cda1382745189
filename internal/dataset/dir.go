package dataset

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// idxStems are the usual names of MNIST's files; each may end in .gz, and the
// dash before idx may be a dot.
var idxStems = [4]string{
	"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
	"t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte",
}

// openDir reads the IDX files of a directory. The training or the test pair may
// be missing.
func openDir(ctx context.Context, dir string) (*Data, error) {
	var path [4]string
	for i, stem := range idxStems {
		path[i] = findIDX(dir, stem)
	}
	if path == [4]string{} {
		return nil, &Error{
			File: dir, Problem: "holds no IDX files",
			Remedy: "it should hold " + strings.Join(idxStems[:], ", ") + ", plain or .gz",
		}
	}
	d := &Data{Name: filepath.Base(dir), Source: dir, IntegerLabels: true, Valid: &Set{Part: "valid", File: dir}}
	var err error
	if d.Train, err = openPair(ctx, dir, "train", path[0], path[1], idxStems[0], idxStems[1]); err != nil {
		return nil, err
	}
	if d.Test, err = openPair(ctx, dir, "test", path[2], path[3], idxStems[2], idxStems[3]); err != nil {
		return nil, err
	}
	return d.finish()
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

// openPair reads one part from its images and labels; both may be absent.
func openPair(ctx context.Context, dir, part, images, labels, imageStem, labelStem string) (*Set, error) {
	switch {
	case images == "" && labels == "":
		return &Set{Part: part, File: dir}, nil
	case images == "":
		return nil, &Error{File: dir, Problem: fmt.Sprintf("has %s but not %s", filepath.Base(labels), imageStem), Remedy: "put the missing file there"}
	case labels == "":
		return nil, &Error{File: dir, Problem: fmt.Sprintf("has %s but not %s", filepath.Base(images), labelStem), Remedy: "put the missing file there"}
	}
	x, err := readIDXFile(ctx, images, 3)
	if err != nil {
		return nil, err
	}
	y, err := readIDXFile(ctx, labels, 1)
	if err != nil {
		return nil, err
	}
	if x.dims[0] != y.dims[0] {
		return nil, &Error{
			File:    images,
			Problem: fmt.Sprintf("%d images, but %d labels in %s", x.dims[0], y.dims[0], filepath.Base(labels)),
			Remedy:  "take both files from the same source",
		}
	}
	s := &Set{
		Part: part, File: images, Shape: []int{1, x.dims[1], x.dims[2]},
		Labels: make([]int, x.dims[0]), n: x.dims[0], fileRows: x.dims[0], labelFile: labels,
	}
	for i, b := range y.data {
		s.Labels[i] = int(b)
	}
	s.px = storedPixels{x.data, x.dims[1] * x.dims[2]}
	return s, nil
}

// storedPixels are images held in memory, one byte a pixel.
type storedPixels struct {
	data []byte
	d    int
}

var _ pixels = storedPixels{}

func (p storedPixels) imageTo(dst []byte, pos int) { copy(dst, p.data[pos*p.d:(pos+1)*p.d]) }

// sameShape reports whether the inputs of two parts have the same shape, which an
// empty part has with any other.
func sameShape(a, b *Set) bool {
	return a.Len() == 0 || b.Len() == 0 || slices.Equal(a.Shape, b.Shape)
}
