package funcgp

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/dataset"
)

// What is saved of leave-one-out predictions is read back, and nothing else.
func TestPackRows(t *testing.T) {
	p := &problem{Task: &problemTask{Classes: []int{4, 9}}, Examples: &examples{Train: &dataset.Rows{Labels: []int{4}, Index: []int{7}}}}
	good := []float64{7, 4, 4, -1, -2, .5, math.NaN(), .9, .1, .8, .2}
	rows, ok := unpackRows(good, p)
	require.True(t, ok)
	require.Equal(t, good[:6], packRows(rows)[:6])
	require.Equal(t, good[7:], packRows(rows)[7:])
	for at, value := range map[int]float64{0: 8, 1: 5} {
		bad := slices.Clone(good)
		bad[at] = value
		_, ok := unpackRows(bad, p)
		require.False(t, ok, at)
	}
	for _, bad := range [][]float64{good[:10], {math.NaN()}, {-1}, {math.Inf(1)}} {
		_, ok := unpackRows(bad, p)
		require.False(t, ok)
	}
}

func TestSample(t *testing.T) {
	require.Equal(t, []int{0, 1, 2}, sampleRows(3, 3, 0))
	require.Equal(t, []int{0, 1, 2}, sampleRows(3, 10, 7))
	for seed := range uint64(20) {
		rows := sampleRows(1000, 100, seed)
		require.Len(t, rows, 100)
		require.True(t, slices.IsSorted(rows))
		require.Len(t, slices.Compact(slices.Clone(rows)), 100)
		require.True(t, rows[0] >= 0 && rows[99] < 1000)
		require.Equal(t, rows, sampleRows(1000, 100, seed))
	}
	require.NotEqual(t, sampleRows(1000, 100, 1), sampleRows(1000, 100, 2))
	// Every row has the same chance: 2000 draws of 3 of 10 hit each 600 times, ± 20.
	hits := make([]int, 10)
	for seed := range uint64(2000) {
		for _, r := range sampleRows(10, 3, seed) {
			hits[r]++
		}
	}
	for _, n := range hits {
		require.InDelta(t, 600, n, 120)
	}
}

// Where memory is short fewer rows are left out.
func TestCalibrationMemory(t *testing.T) {
	d := dataset.Digits(0, 6000, 1)
	train, err := d.Train.Select(nil, 0)
	require.NoError(t, err)
	for _, c := range []struct {
		method  string
		outputs int
		memory  int64
		want    int
	}{
		{"exact", 10, 1 << 40, 6000},
		{"nystrom", 10, 1 << 40, 5000},
		{"parameters", 10, 1 << 40, 5000},
		// A quarter of the memory over four covariances of 10·10 and means of 10 numbers.
		{"exact", 10, 4 * 4 * 8 * 110 * 1000, 1000},
		{"nystrom", 10, 4 * 4 * 8 * 110 * 1000, 1000},
		{"nystrom", 1000, 1 << 30, 8},
		{"exact", 1000, 1, 1},
	} {
		p := &problem{Model: &trainedModel{Outputs: c.outputs}, Examples: &examples{Train: train}, Memory: c.memory}
		require.Len(t, (&solution{How: methodUsed{Name: c.method}}).leftOut(p), c.want, c)
	}
	// A subset leaves out its own rows only.
	p := &problem{Model: &trainedModel{Outputs: 1}, Examples: &examples{Train: train}, Memory: 1 << 30}
	require.Equal(t, []int{7, 70, 700}, (&solution{How: methodUsed{Name: "subset", inducing: []int{700, 7, 70}}}).leftOut(p))
}
