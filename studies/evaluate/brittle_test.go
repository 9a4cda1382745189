package evaluate_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/studies/evaluate"
)

// removals rank at random, and rows of the test row's class before all others.
func removals(t *testing.T, dir string) *evaluate.Removals {
	t.Helper()
	p := problem(t, 3)
	rng := rand.New(rand.NewPCG(5, 5))
	scores := mat.NewDense(7, 40, nil)
	scores.Apply(func(k, i int, _ float64) float64 {
		if p.Y.At(i, 0) == p.TestY.At(k, 0) {
			return math.Trunc(3 * rng.Float64()) // with ties
		}
		return -rng.Float64()
	}, scores)
	return &evaluate.Removals{Retraining: retraining(t, dir), Y: p.TestY, Scores: scores, Seeds: []uint64{3, 8}}
}

// averaged trains the networks of one test row and size one by one.
func averaged(t *testing.T, m *evaluate.Removals, row, size int) []float64 {
	t.Helper()
	score := m.Scores.RawRowView(row)
	gone := map[int]bool{}
	for range size {
		best := -1
		for i, v := range score {
			if !gone[i] && (best < 0 || v > score[best]) {
				best = i
			}
		}
		gone[best] = true
	}
	var rows []int
	for i := range score {
		if !gone[i] {
			rows = append(rows, i)
		}
	}
	if size == 0 {
		rows = nil
	}
	sum := make([]float64, 3)
	for _, seed := range m.Seeds {
		net, err := m.Retraining.Train(t.Context(), evaluate.Run{Rows: rows, Seed: seed})
		require.NoError(t, err)
		f, err := net.Forward(t.Context(), m.Retraining.Test)
		require.NoError(t, err)
		for c := range sum {
			sum[c] += f.At(row, c) / 2
		}
	}
	return sum
}

// rowsOf returns some rows of m.
func rowsOf(m *mat.Dense, index []int) *mat.Dense {
	return mat.DenseCopyOf(columns(mat.DenseCopyOf(m.T()), index).T())
}

// modeOf returns the targets of the test rows at the mode of the linearized model, found
// by a refit.
func modeOf(t *testing.T, p *evaluate.Problem, precision float64) []float64 {
	t.Helper()
	train, err := p.Network.Linearize(t.Context(), p.X)
	require.NoError(t, err)
	x, err := p.Network.Linearize(t.Context(), p.TestX)
	require.NoError(t, err)
	prior, err := ntk.NewIsotropic(precision, nil)
	require.NoError(t, err)
	post, err := gp.Refit(t.Context(), ntk.New(prior, p.Network.Theta()), train, gp.NewTargets(p.Y, p.Likelihood), nil)
	require.NoError(t, err)
	rows, c := x.F.Dims()
	mean, cov := mat.NewDense(rows, c, nil), mat.NewDense(rows*c, c, nil)
	require.NoError(t, post.PredictTo(t.Context(), mean, cov, x))
	out, w := make([]float64, rows), make([]float64, c)
	for k := range out {
		evaluate.Margin{}.GradientTo(w, p.TestY.RawRowView(k), x.F.RawRowView(k))
		out[k] = floats.Dot(w, mean.RawRowView(k))
	}
	return out
}

func largest(v []float64) int { return slices.Index(v, slices.Max(v)) }

// Outputs, drops and flips are those of networks trained without the first rows of each
// ranking, one by one; where a size flips, all larger ones that are tried do.
func TestRemovalsRetrain(t *testing.T) {
	m := removals(t, t.TempDir())
	sizes := []int{0, 5, 1, 0, 39, 12, 3}
	got, err := m.Outputs(t.Context(), sizes)
	require.NoError(t, err)
	for k, size := range sizes {
		require.InDeltaSlice(t, averaged(t, m, k, size), got.RawRowView(k), 1e-12, "row %d without %d", k, size)
	}

	drops, err := m.Drops(t.Context(), 9, evaluate.Margin{})
	require.NoError(t, err)
	for k, d := range drops {
		before, after := averaged(t, m, k, 0), averaged(t, m, k, 9)
		y := m.Y.RawRowView(k)
		require.InDelta(t, evaluate.Margin{}.Value(y, before), d.Before, 1e-9)
		require.InDelta(t, evaluate.Margin{}.Value(y, after), d.After, 1e-9)
		require.Equal(t, largest(before) != largest(after), d.Flipped)
	}

	grid := []int{1, 4, 9, 16, 25}
	flips, err := m.Flips(t.Context(), grid)
	require.NoError(t, err)
	some := 0
	for k, size := range flips {
		flipped := func(size int) bool { return largest(averaged(t, m, k, 0)) != largest(averaged(t, m, k, size)) }
		at := slices.Index(grid, size)
		if size == 0 {
			require.False(t, flipped(grid[len(grid)-1]))
			continue
		}
		some++
		require.True(t, flipped(size))
		require.True(t, at == 0 || !flipped(grid[at-1]))
	}
	require.Positive(t, some)
}

// Nothing depends on the number of processors or on the files of an earlier call, and a row
// of one output is of class 1 above 0.
func TestRemovalsGoOn(t *testing.T) {
	m := removals(t, t.TempDir())
	want, err := m.Flips(t.Context(), []int{2, 8, 20})
	require.NoError(t, err)
	got, err := m.Flips(t.Context(), []int{2, 8, 20})
	require.NoError(t, err)
	require.Equal(t, want, got)
	m.Retraining.Dir, m.Retraining.AtOnce = "", 3
	got, err = m.Flips(t.Context(), []int{2, 8, 20})
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.Equal(t, []int{1, 0, 0}, evaluate.Classes(mat.NewDense(3, 1, []float64{0.1, 0, -3})))
	require.Equal(t, []int{2, 0}, evaluate.Classes(mat.NewDense(2, 3, []float64{0, 1, 2, 1, 1, -1})))
}

func TestRemovalsRefuse(t *testing.T) {
	m := removals(t, "")
	for _, sizes := range [][]int{nil, {0, 1}, {5, 3}} {
		_, err := m.Flips(t.Context(), sizes)
		require.ErrorContains(t, err, "must ascend")
	}
	_, err := m.Flips(t.Context(), []int{40})
	require.ErrorContains(t, err, "removal of 40 of 40")
	_, err = m.Drops(t.Context(), 0, evaluate.Margin{})
	require.ErrorContains(t, err, "the least is 1")
	_, err = m.Outputs(t.Context(), []int{0, 0, -2, 0, 0, 0, 0})
	require.ErrorContains(t, err, "removal of -2")
	m.Scores.Set(2, 11, math.NaN())
	_, err = m.Flips(t.Context(), []int{1})
	require.ErrorContains(t, err, "training row 11 for test row 2")
	m.Scores.Set(2, 11, 0)
	m.Seeds = nil
	_, err = m.Flips(t.Context(), []int{1})
	require.ErrorContains(t, err, "Removals.Seeds")
}

// What the linearized model loses without a row is what a refit without it says, and its
// first Newton step is the attribution; without rows gone, nothing is lost.
func TestLeaveOut(t *testing.T) {
	for _, outputs := range []int{1, 3} {
		p := problem(t, outputs)
		k := evaluate.Kernel{Precision: 2}
		f, err := k.Fit(t.Context(), p)
		require.NoError(t, err)
		rows := []int{0, 17, 39}
		got, err := f.LeaveOut(t.Context(), rows)
		require.NoError(t, err)
		without := func(i int) []float64 {
			q := *p
			q.X, q.Y = rowsOf(p.X, evaluate.Without(40, i)), rowsOf(p.Y, evaluate.Without(40, i))
			return modeOf(t, &q, 2)
		}
		all := modeOf(t, p, 2)
		var near, far float64
		removal := attribute(t, k, p)["removal"]
		for j, i := range rows {
			for test, v := range without(i) {
				want := all[test] - v
				require.InDelta(t, want, got.At(test, j), 1e-7, "%d outputs, row %d", outputs, i)
				near, far = near+math.Abs(want-removal.At(test, i)), far+math.Abs(want)
			}
		}
		require.Less(t, near, 0.2*far)
	}
	f, err := evaluate.Kernel{Precision: 2, AtTheta: true}.Fit(t.Context(), problem(t, 3))
	require.NoError(t, err)
	_, err = f.LeaveOut(t.Context(), []int{1})
	require.ErrorContains(t, err, "not refitted")
	require.Equal(t, []int{0, 4, 2, 3}, evaluate.Without(5, 1))
	require.Equal(t, []int{0, 1}, evaluate.Without(3, 2))
}
