package evaluate_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/linearize/train"
	"github.com/funcgp/funcgp/studies/evaluate"
)

func retraining(t *testing.T, dir string) *evaluate.Retraining {
	p := problem(t, 3)
	return &evaluate.Retraining{
		Network: func(seed uint64) (*network.Network, error) {
			return network.Seeded(seed, network.Shape{4}, network.Dense{Units: 5}, network.Tanh, network.Dropout{Ratio: 0.2}, network.Dense{Units: 3})
		},
		X: p.X, Y: p.Y, Test: p.TestX, Loss: p.Likelihood, Dir: dir,
		Options: train.Options{Optimizer: train.SGD{Momentum: 0.9}, Schedule: train.Constant{}, LearningRate: 0.01, Batch: 8, Epochs: 4, LBFGS: -1},
	}
}

func runs(n int) []evaluate.Run {
	var list []evaluate.Run
	for i, rows := range evaluate.Subsets(40, 20, n, 1) {
		list = append(list, evaluate.Run{Rows: rows, Seed: uint64(i)})
	}
	return list
}

func requireSame(t *testing.T, want, got []*mat.Dense) {
	t.Helper()
	require.Len(t, got, len(want))
	for i := range want {
		require.True(t, mat.Equal(want[i], got[i]), "run %d", i)
	}
}

// Outputs are bit-identical whether they are computed at once, by any number of processors,
// or go on from the files of an interrupted call; and those that are there are not
// computed again.
func TestRetrainingGoesOn(t *testing.T) {
	want, err := retraining(t, "").Outputs(t.Context(), runs(6))
	require.NoError(t, err)
	r := retraining(t, filepath.Join(t.TempDir(), "deep", "runs"))
	r.AtOnce = 1
	ctx, cancel := context.WithCancel(t.Context())
	r.Progress = func(done, total int) {
		require.Equal(t, 6, total)
		if done == 2 {
			cancel()
		}
	}
	_, err = r.Outputs(ctx, runs(6))
	require.ErrorIs(t, err, context.Canceled)
	files, err := os.ReadDir(r.Dir)
	require.NoError(t, err)
	require.Len(t, files, 2)
	r.Progress, r.AtOnce = nil, 3
	got, err := r.Outputs(t.Context(), runs(6))
	require.NoError(t, err)
	requireSame(t, want, got)

	// All are there now: no file is written again.
	before := times(t, r.Dir)
	require.Len(t, before, 6)
	got, err = r.Outputs(t.Context(), runs(6))
	require.NoError(t, err)
	requireSame(t, want, got)
	require.Equal(t, before, times(t, r.Dir))
}

// times returns when each file of a directory was changed.
func times(t *testing.T, dir string) map[string]time.Time {
	t.Helper()
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	out := map[string]time.Time{}
	for _, f := range files {
		info, err := f.Info()
		require.NoError(t, err)
		out[f.Name()] = info.ModTime()
	}
	return out
}

// Whatever the outputs depend on is in the name of the file.
func TestRetrainingKeys(t *testing.T) {
	dir := t.TempDir()
	count := func() int {
		files, err := os.ReadDir(dir)
		require.NoError(t, err)
		return len(files)
	}
	one := runs(1)
	change := []func(r *evaluate.Retraining){
		func(*evaluate.Retraining) {},
		func(r *evaluate.Retraining) { r.Options.LearningRate = 0.02 },
		func(r *evaluate.Retraining) { r.Options.Epochs = 3 },
		func(r *evaluate.Retraining) { r.Options.Batch = 9 },
		func(r *evaluate.Retraining) { r.Options.Optimizer = train.SGD{} },
		func(r *evaluate.Retraining) { r.Options.Precision = make([]float64, 43) },
		func(r *evaluate.Retraining) { r.Options.Evaluation = true },
		func(r *evaluate.Retraining) { r.X = mat.DenseCopyOf(r.X); r.X.Set(0, 0, 1) },
		func(r *evaluate.Retraining) {
			r.Y = mat.DenseCopyOf(r.Y)
			r.Y.Set(0, 0, float64((int(r.Y.At(0, 0))+1)%3))
		},
		func(r *evaluate.Retraining) { r.Test = mat.DenseCopyOf(r.Test); r.Test.Set(0, 0, 1) },
		func(*evaluate.Retraining) { one[0].Seed = 5 },
		func(*evaluate.Retraining) { one[0].Rows = one[0].Rows[1:] },
		func(*evaluate.Retraining) { one[0].Rows = nil },
	}
	for i, f := range change {
		r := retraining(t, dir)
		f(r)
		_, err := r.Outputs(t.Context(), one)
		require.NoError(t, err)
		require.Equal(t, i+1, count())
	}
}

// Checkpoints are those of the one training, and the last is its result.
func TestCheckpoints(t *testing.T) {
	r := retraining(t, "")
	run := runs(1)[0]
	nets, err := r.Checkpoints(t.Context(), run, 0.5, 1)
	require.NoError(t, err)
	whole, err := r.Train(t.Context(), run)
	require.NoError(t, err)
	require.Equal(t, whole.Theta(), nets[1].Theta())
	r.Options.Epochs = 2
	half, err := r.Train(t.Context(), run)
	require.NoError(t, err)
	require.Equal(t, half.Theta(), nets[0].Theta())
}

// Wrong runs and damaged files are errors.
func TestRetrainingErrors(t *testing.T) {
	r := retraining(t, t.TempDir())
	for want, run := range map[string]evaluate.Run{
		"row 40 of a run": {Rows: []int{1, 40}}, "there twice": {Rows: []int{1, 1}}, "without training rows": {Rows: []int{}},
	} {
		_, err := r.Outputs(t.Context(), []evaluate.Run{run})
		require.ErrorContains(t, err, want)
	}
	_, err := r.Checkpoints(t.Context(), evaluate.Run{}, 2)
	require.ErrorContains(t, err, "share of 2")
	r.Options.Schedule = train.Cosine{}
	_, err = r.Checkpoints(t.Context(), evaluate.Run{}, 0.5)
	require.ErrorContains(t, err, "constant step size")
	r.Options.Validation = &train.Validation{}
	_, err = r.Outputs(t.Context(), runs(1))
	require.ErrorContains(t, err, "no validation rows")

	r = retraining(t, t.TempDir())
	_, err = r.Outputs(t.Context(), runs(1))
	require.NoError(t, err)
	files, err := os.ReadDir(r.Dir)
	require.NoError(t, err)
	path := filepath.Join(r.Dir, files[0].Name())
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	data[len(data)/2] ^= 1
	require.NoError(t, os.WriteFile(path, data, 0o666))
	_, err = r.Outputs(t.Context(), runs(1))
	require.ErrorContains(t, err, path)
}
