package novelty

import (
	"bytes"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

func random(rng *rand.Rand, n, d int) *mat.Dense {
	m := mat.NewDense(n, d, nil)
	m.Apply(func(_, _ int, _ float64) float64 { return rng.NormFloat64() }, m)
	return m
}

// The baselines are what their formulas give row by row.
func TestBaselines(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	const n, d, rows = 40, 6, 9
	train, x := random(rng, n, d), random(rng, rows, d)
	labels, means, count := make([]int, n), mat.NewDense(3, d, nil), make([]float64, 3)
	for i := range labels {
		labels[i] = i % 3
		floats.Add(means.RawRowView(i%3), train.RawRowView(i))
		count[i%3]++
	}
	cov := mat.NewDense(d, d, nil)
	for k := range count {
		floats.Scale(1/count[k], means.RawRowView(k))
	}
	for i := range n {
		u := mat.NewVecDense(d, nil)
		u.SubVec(train.RowView(i), means.RowView(labels[i]))
		var outer mat.Dense
		outer.Outer(1./n, u, u)
		cov.Add(cov, &outer)
	}
	ridge := shrinkage * mat.Trace(cov) / d
	for j := range d {
		cov.Set(j, j, cov.At(j, j)+ridge)
	}
	var inverse mat.Dense
	require.NoError(t, inverse.Inverse(cov))
	far, near := newMahalanobis(train, labels).of(x), nearest(train, x)
	for i := range rows {
		want := math.Inf(1)
		for k := range count {
			u := mat.NewVecDense(d, nil)
			u.SubVec(x.RowView(i), means.RowView(k))
			want = min(want, mat.Inner(u, &inverse, u))
		}
		require.InEpsilon(t, want, far[i], 1e-9)
		var all []float64
		for j := range n {
			all = append(all, floats.Distance(x.RawRowView(i), train.RawRowView(j), 2))
		}
		slices.Sort(all)
		require.InEpsilon(t, all[neighbours-1], near[i], 1e-9)
	}
}

// Noise stays within the range of each training column, and permuted columns hold values of
// test rows.
func TestDrawnRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	train, test := random(rng, 30, 3), random(rng, 10, 3)
	sets := drawnFrom(train, test)
	for j := range 3 {
		column, values := mat.Col(nil, j, train), mat.Col(nil, j, test)
		for i := range drawn {
			require.True(t, sets[0].x.At(i, j) >= slices.Min(column) && sets[0].x.At(i, j) <= slices.Max(column))
			require.Contains(t, values, sets[1].x.At(i, j))
		}
	}
}

// A case that was measured is read from the cache, and gives the same files.
func TestRunGoesOn(t *testing.T) {
	shared := filepath.Join("..", "..", "..", "shared")
	if _, err := os.Stat(filepath.Join(shared, "reference", "match")); err != nil {
		t.Skip("there is no reference of the match")
	}
	dir := t.TempDir()
	run := func(out string) string {
		args := []string{"-cache", filepath.Join(dir, "cache"), "-out", filepath.Join(dir, out), "-shared", shared, "-cases", "wine-adamw"}
		require.NoError(t, Run(t.Context(), io.Discard, args))
		page, err := os.ReadFile(filepath.Join(dir, out, "novelty.md"))
		require.NoError(t, err)
		return string(page)
	}
	page := run("first")
	require.Equal(t, 3, strings.Count(page, "| wine-adamw | uniform")+strings.Count(page, "| wine-adamw | permuted")+strings.Count(page, "| wine-adamw | other"))
	require.Equal(t, page, run("second")) // with the times of the first
	require.Error(t, Run(t.Context(), new(bytes.Buffer), []string{"-shared", dir, "-cases", "wine-adamw", "-out", dir}))
}
