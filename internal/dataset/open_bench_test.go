package dataset

import (
	"context"
	"path/filepath"
	"testing"
)

// BenchmarkOpenMNIST opens the directory of MNIST's four compressed files, and
// the largest of them.
func BenchmarkOpenMNIST(b *testing.B) {
	dir := shared(b, "mnist")
	b.Run("all", func(b *testing.B) {
		for b.Loop() {
			if _, err := Open(context.Background(), dir, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("train-images", func(b *testing.B) {
		for b.Loop() {
			if _, err := readIDXFile(b.Context(), filepath.Join(dir, idxStems[0]+".gz"), 3, 0); err != nil {
				b.Fatal(err)
			}
		}
	})
}
