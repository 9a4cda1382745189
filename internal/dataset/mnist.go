package dataset

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/funcgp/funcgp/internal/option"
)

// mnistMD5 holds the checksums of MNIST's four compressed files.
var mnistMD5 = map[string]string{
	"train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
	"train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
	"t10k-images-idx3-ubyte.gz":  "9fb629c4189551a2d022fa330f9573f3",
	"t10k-labels-idx1-ubyte.gz":  "ec29112dd5afa0611ce80d1b7f02629c",
}

// newFetcher returns a fetcher for the files of MNIST. progress may be nil.
func newFetcher(progress func(stage string, done, total int)) *fetcher {
	mirrors := []string{"https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/"}
	return &fetcher{mirrors: mirrors, sums: mnistMD5, timeout: 30 * time.Second, pause: time.Second, most: 64 << 20, progress: progress}
}

// openMNIST reads MNIST from the user's cache directory, after f has downloaded missing files into
// it. Files that the user put there are not checked. Downloaded files are stored decompressed.
func openMNIST(ctx context.Context, f *fetcher, most int64) (*Data, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, &Error{File: "mnist", Problem: "there is no cache directory", Err: err, Remedy: "set HOME, or " + byHand}
	}
	dir := filepath.Join(cache, "funcgp", "mnist")
	for _, stem := range idxStems {
		if findIDX(dir, stem) != "" {
			continue
		}
		if err := f.fetch(ctx, dir, stem+".gz", f.sums[stem+".gz"]); err != nil {
			e := &Error{File: "mnist", Place: stem + ".gz", Problem: "cannot be downloaded", Err: err}
			e.Remedy = option.Textf("without a network, put the four files %s (.gz or not) into %s, or %v", strings.Join(idxStems[:], ", "), dir, byHand)
			if ctx.Err() != nil {
				e.Problem, e.Err, e.Remedy = "the download was stopped", ctx.Err(), "run again to go on with this file"
			}
			return nil, e
		}
	}
	d, err := openDir(ctx, dir, most)
	var e *Error
	if errors.As(err, &e) && e.Remedy == again {
		e.Remedy = "delete the file, and it is downloaded again"
	}
	if err != nil {
		return nil, err
	}
	d.Name = "mnist"
	return d, nil
}

const byHand option.Text = "name a directory that holds the four files with {data} DIR"
