package dataset

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/testref"
)

// fakeMNIST is a small MNIST: three training and two test images of 2×2.
func fakeMNIST(t testing.TB) map[string][]byte {
	return map[string][]byte{
		"train-images-idx3-ubyte.gz": zipped(t, idxBytes(count(12), 3, 2, 2)),
		"train-labels-idx1-ubyte.gz": zipped(t, idxBytes([]byte{7, 4, 9}, 3)),
		"t10k-images-idx3-ubyte.gz":  zipped(t, idxBytes(count(8), 2, 2, 2)),
		"t10k-labels-idx1-ubyte.gz":  zipped(t, idxBytes([]byte{9, 4}, 2)),
	}
}

func TestOpenDir(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "train-images.idx3-ubyte", idxBytes([]byte{0, 51, 102, 255, 1, 2, 3, 4}, 2, 2, 2))
	write(t, dir, "train-labels-idx1-ubyte.gz", zipped(t, idxBytes([]byte{9, 4}, 2)))
	d := testref.Must(Open(context.Background(), dir, nil))(t)
	require.Equal(t, []int{1, 2, 2}, d.Shape)
	require.Equal(t, []int{4, 9}, d.Classes())
	require.True(t, d.Images())
	require.Equal(t, []int{9, 4}, d.Train.Labels)
	require.Equal(t, []byte{0, 51, 102, 255}, d.Train.Image(0))
	// Pixels are divided by 255.
	require.Equal(t, []float64{0, 51. / 255, 102. / 255, 1}, d.Train.Matrix().RawRowView(0))
	require.Zero(t, d.Test.Len())
	require.Zero(t, d.Valid.Len())
}

// The image of a row is the caller's to change.
func TestImageIsACopy(t *testing.T) {
	dir := t.TempDir()
	for name, file := range fakeMNIST(t) {
		write(t, dir, name, file)
	}
	d := testref.Must(Open(context.Background(), dir, nil))(t)
	d.Train.Image(1)[0] = 99
	require.Equal(t, []byte{4, 5, 6, 7}, d.Train.Image(1))
}

func TestOpenDirErrors(t *testing.T) {
	images, labels := "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"
	for _, c := range []struct {
		files map[string][]byte
		want  string
	}{
		{nil, "holds no IDX files; it should hold train-images-idx3-ubyte, "},
		{map[string][]byte{images: nil}, "has t10k-images-idx3-ubyte but not t10k-labels-idx1-ubyte"},
		{map[string][]byte{labels: nil}, "has t10k-labels-idx1-ubyte but not t10k-images-idx3-ubyte"},
		{map[string][]byte{images: idxBytes(count(8), 2, 2, 2), labels: idxBytes(count(3), 3)}, "2 images, but 3 labels in t10k-labels-idx1-ubyte"},
		{map[string][]byte{images: idxBytes(count(3), 3), labels: idxBytes(count(3), 3)}, "want 0x00000803 for images"},
		{map[string][]byte{images: idxBytes(count(8), 2, 2, 2), labels: nil}, "t10k-labels-idx1-ubyte: byte 0: the header ends"},
		{map[string][]byte{
			images: idxBytes(count(8), 2, 2, 2), labels: idxBytes(count(2), 2),
			"train-images-idx3-ubyte": idxBytes(count(6), 1, 2, 3), "train-labels-idx1-ubyte": idxBytes(count(1), 1),
		}, "training inputs have shape [1 2 3], test inputs [1 2 2]"},
	} {
		dir := t.TempDir()
		for name, file := range c.files {
			write(t, dir, name, file)
		}
		_, err := Open(context.Background(), dir, nil)
		require.ErrorContains(t, err, c.want)
		require.ErrorContains(t, err, dir)
	}
}

func TestOpenDirUnreadable(t *testing.T) {
	if os.Getuid() <= 0 {
		t.Skip("root reads everything, and Windows has no such mode")
	}
	dir := t.TempDir()
	for name, file := range fakeMNIST(t) {
		write(t, dir, name, file)
	}
	require.NoError(t, os.Chmod(filepath.Join(dir, "t10k-labels-idx1-ubyte.gz"), 0))
	require.ErrorIs(t, testref.Err(Open(context.Background(), dir, nil)), os.ErrPermission)
}

// MNIST: sizes and class counts of the published data set
// (http://yann.lecun.com/exdb/mnist), 4 and 9 as in the thesis-cnn reference.
func TestOpenDirMNIST(t *testing.T) {
	d := testref.Must(Open(context.Background(), shared(t, "mnist"), nil))(t)
	require.Equal(t, []int{1, 28, 28}, d.Shape)
	require.Equal(t, 60000, d.Train.Len())
	require.Equal(t, 10000, d.Test.Len())
	require.Equal(t, []int{5, 0, 4, 1, 9, 2, 1, 3, 1, 4}, d.Train.Labels[:10])
	test := testref.Must(d.Test.Select([]int{4, 9}, 0))(t)
	require.Equal(t, 1991, test.Len())
	train := testref.Must(d.Train.Select([]int{4, 9}, 3000))(t)
	require.Equal(t, []int{2, 4, 9}, train.Index[:3])
	x := train.Matrix()
	n, dim := x.Dims()
	require.Equal(t, [2]int{3000, 784}, [2]int{n, dim})
	var sum float64
	for _, b := range d.Train.Image(9) {
		sum += float64(b) / 255
	}
	var got float64
	for _, v := range x.RawRowView(2) {
		got += v
	}
	require.Equal(t, sum, got) // the same terms in the same order
}

func TestOpenDirTestOnly(t *testing.T) {
	d := testref.Must(Open(context.Background(), shared(t, "kmnist"), nil))(t)
	require.Equal(t, 10000, d.Test.Len())
	require.Zero(t, d.Train.Len())
	require.ErrorContains(t, testref.Err(d.Train.Select(nil, 0)), "there are no train rows in these data")
	require.ErrorContains(t, testref.Err(d.Train.Lookup(0)), "there are no train rows in these data")
}
