package dataset

import (
	"context"
	"path/filepath"
	"testing"
)

// BenchmarkOpenMNIST opens the directory of MNIST's four compressed files, and
// decodes its largest file as a stream.
func BenchmarkOpenMNIST(b *testing.B) {
	dir := shared(b, "mnist")
	b.Run("all", func(b *testing.B) {
		for b.Loop() {
			if _, err := Open(context.Background(), dir, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	path := filepath.Join(dir, idxStems[0]+".gz")
	b.Run("train-images/impl=memory", func(b *testing.B) {
		for b.Loop() {
			if _, err := readIDXFile(b.Context(), path, 3); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("train-images/impl=stream", func(b *testing.B) {
		for b.Loop() {
			f, err := openFile(b.Context(), path)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := readIDX(f, path, 3); err != nil {
				b.Fatal(err)
			}
			f.Close()
		}
	})
}
