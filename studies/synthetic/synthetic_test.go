package synthetic_test

import (
	"context"
	"math"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/dataset"
	"github.com/funcgp/funcgp/studies/synthetic"
)

// TestWrite checks that counts have about the mean and the variance of their rates, and that two
// tables of a seed are the same.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	read := func(name string, seed uint64) *dataset.Rows {
		require.NoError(t, synthetic.Counts.Write(dir, name, 20, 4000, seed))
		d, err := dataset.Open(context.Background(), filepath.Join(dir, name+"-train.csv"), &dataset.OpenOptions{TestFile: filepath.Join(dir, name+"-test.csv")})
		require.NoError(t, err)
		require.Equal(t, 20, d.Train.Len())
		return d.Test
	}
	a, b := read("a", 1), read("b", 1)
	require.Equal(t, a.Targets, b.Targets)
	require.NotEqual(t, a.Targets, read("c", 2).Targets)
	x := a.Matrix()
	sum, square := 0.0, 0.0
	for i, y := range a.Targets {
		v := x.RawRowView(i)
		rate := math.Exp(1 + math.Sin(3*v[0]) + v[1]*v[2] - v[3]/2)
		sum += (y - rate) / math.Sqrt(rate)
		square += (y - rate) * (y - rate) / rate
	}
	require.InDelta(t, 0, sum/4000, 4/math.Sqrt(4000))
	require.InDelta(t, 1, square/4000, 4*math.Sqrt(3.0/4000)) // the variance of its terms is 2 + 1/rate
}
