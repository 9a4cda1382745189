package dataset

import (
	"context"
	"hash/crc32"
	"io"
	"slices"
	"strings"

	"github.com/funcgp/funcgp/store"
)

// A copy of a compressed IDX file holds its bytes decompressed, to be mapped into memory:
// decompressing MNIST takes longer than most of what is asked of it.
const (
	copyKind    = "idx copy"
	copyVersion = 1
	copySuffix  = ".copy"
)

// copyOf is the JSON section of a copy: the file that it is of, and its dimensions.
type copyOf struct {
	Bytes  int64
	CRC32C uint32
	Dims   []int
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// readCopied is readIDXFile that leaves a copy of a compressed file of images beside it and
// reads from that the next time, unless the file has changed since. A copy that cannot be
// written or read is done without.
func readCopied(ctx context.Context, path string, rank int) (*idx, error) {
	if rank == 1 || !strings.HasSuffix(path, ".gz") {
		return readIDXFile(ctx, path, rank, 0)
	}
	of, err := sumOf(ctx, path)
	if err != nil {
		return nil, err
	}
	if x := openCopy(path+copySuffix, of, rank); x != nil {
		return x, nil
	}
	x, err := readIDXFile(ctx, path, rank, 0)
	if err != nil {
		return nil, err
	}
	of.Dims = x.dims
	_ = store.Write(path+copySuffix, copyKind, copyVersion, func(w *store.Writer) error {
		w.JSON("of", of)
		w.Bytes("data", x.data)
		return nil
	})
	return x, nil
}

// sumOf is what a copy of a file says of it, but its dimensions.
func sumOf(ctx context.Context, path string) (of copyOf, err error) {
	f, err := openFile(ctx, path)
	if err != nil {
		return of, err
	}
	defer f.Close()
	h := crc32.New(castagnoli)
	if of.Bytes, err = io.CopyBuffer(h, f, make([]byte, 1<<18)); err != nil {
		if interrupted(err) {
			return of, err
		}
		return of, &Error{File: path, Problem: "cannot be read", Err: err, Remedy: again}
	}
	of.CRC32C = h.Sum32()
	return of, nil
}

// openCopy returns the content of a copy, which stays mapped until the program ends, or nil
// where there is none of this file.
func openCopy(path string, of copyOf, rank int) *idx {
	f, err := store.Open(path, copyKind, copyVersion)
	if err != nil {
		return nil
	}
	var is copyOf
	data, err := f.Bytes("data")
	if err == nil {
		err = f.JSON("of", &is)
	}
	of.Dims = is.Dims
	size := 1
	for _, n := range is.Dims {
		size *= n
	}
	if err != nil || is.Bytes != of.Bytes || is.CRC32C != of.CRC32C || len(is.Dims) != rank || slices.Min(is.Dims) < 1 || size != len(data) {
		_ = f.Close() // it was only read from
		return nil
	}
	return &idx{dims: is.Dims, data: data}
}
