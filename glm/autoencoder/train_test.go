package autoencoder

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/store"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize/network"
)

// small returns an autoencoder of rows of 12 numbers.
func small(t testing.TB, widths ...int) *Autoencoder {
	t.Helper()
	if len(widths) == 0 {
		widths = []int{8, 2}
	}
	layers := testref.Must(Layers(12, widths, network.Tanh))(t)
	net := testref.Must(network.Seeded(1, network.Shape{12}, layers...))(t)
	return testref.Must(New(net, ""))(t)
}

// curves returns rows that two numbers describe.
func curves(n int, seed uint64) *mat.Dense {
	rng, x := rand.New(rand.NewPCG(seed, 1)), mat.NewDense(n, 12, nil)
	for i := range n {
		at, width := rng.Float64()*12, 1+2*rng.Float64()
		for j := range 12 {
			x.Set(i, j, math.Exp(-math.Pow((float64(j)-at)/width, 2)))
		}
	}
	return x
}

func trainSmall(t *testing.T, o TrainOptions) (*Posterior, *TrainResult) {
	t.Helper()
	p, r, err := Train(t.Context(), small(t), curves(90, 1), &o)
	require.NoError(t, err)
	return p, r
}

// Both rules learn to reconstruct, and the precision grows.
func TestTrain(t *testing.T) {
	for _, rule := range []Rule{Released, Published} {
		o := TrainOptions{Rule: rule, Memory: 0.99, Batch: 20, LearningRate: 1e-2, Epochs: 60, Patience: 60, Validation: curves(30, 2)}
		var first Epoch
		o.Epoch = func(e Epoch) {
			if first.Train == 0 {
				first = e
			}
		}
		p, r := trainSmall(t, o)
		require.Less(t, r.Epochs[r.Best-1].Validation, 0.6*first.Validation, rule)
		require.Equal(t, 60*4, r.Steps)
		require.Greater(t, slices.Max(p.GGN()), 90.)
	}
}

// The results have the same bits for any number of processors, for several draws a step,
// and where a training goes on from a checkpoint in the middle of an epoch.
func TestTrainIsReproducible(t *testing.T) {
	testref.Procs(t, 1)
	for _, o := range []TrainOptions{
		{Batch: 20, Epochs: 3, Validation: curves(30, 2)},
		{Batch: 20, Epochs: 3, Rule: Published, Samples: 2, Curvature: Exact, Ascent: true},
	} {
		testref.Procs(t, 1)
		want, _ := trainSmall(t, o)
		testref.Procs(t, 4)
		got, _ := trainSmall(t, o)
		require.Equal(t, want.GGN(), got.GGN())
		require.Equal(t, want.a.net.Theta(), got.a.net.Theta())

		ctx, cancel := context.WithCancel(t.Context())
		path := filepath.Join(t.TempDir(), "state")
		stopped := o
		stopped.Progress = func(done, _ int) {
			if done == 6 {
				cancel()
			}
		}
		stopped.Checkpoint = func(s *State) error { return s.Write(path) }
		_, _, err := Train(ctx, small(t), curves(90, 1), &stopped)
		require.ErrorIs(t, err, context.Canceled)
		o.Resume = testref.Must(ReadState(path))(t)
		require.Equal(t, 6, o.Resume.Step)
		got, r := trainSmall(t, o)
		require.Equal(t, want.GGN(), got.GGN())
		require.Equal(t, want.a.net.Theta(), got.a.net.Theta())
		require.Len(t, r.Epochs, 3)
	}
}

// The learning rate is halved after each two of five epochs without a smaller error.
func TestRate(t *testing.T) {
	o := TrainOptions{LearningRate: 8, Patience: 5}
	var epochs []Epoch
	for i, c := range []struct{ error, rate float64 }{{5, 8}, {4, 8}, {4, 8}, {6, 4}, {4.5, 4}, {4, 2}, {3, 2}, {3.5, 2}, {2, 2}, {math.NaN(), 2}, {2, 1}} {
		epochs = append(epochs, Epoch{Validation: c.error})
		require.Equal(t, c.rate, o.rate(epochs), "epoch %d", i+1)
	}
	require.Equal(t, 8., o.rate(nil))
}

// What is left of the prior is that of the epoch that is kept, and a memory that forgets it is refused.
func TestPriorIsForgotten(t *testing.T) {
	p, r := trainSmall(t, TrainOptions{Batch: 20, Epochs: 30, LearningRate: 0.1, Prior: 3, Memory: 0.95, Validation: curves(30, 2)})
	require.InEpsilon(t, 3*math.Pow(0.95, float64(4*r.Best)), p.Prior(), 1e-12)
	_, _, err := Train(t.Context(), small(t), curves(90, 1), &TrainOptions{Batch: 20, Memory: 1e-9})
	require.ErrorContains(t, err, "memory nearer to 1")
}

// A training ends when the validation error has not fallen for some epochs, and keeps
// the epoch with the smallest.
func TestTrainStopsEarly(t *testing.T) {
	o := TrainOptions{Batch: 20, LearningRate: 0.3, Epochs: 200, Patience: 3, Validation: curves(30, 2)}
	_, r := trainSmall(t, o)
	require.Len(t, r.Epochs, r.Best+3)
	for _, e := range r.Epochs {
		require.GreaterOrEqual(t, e.Validation, r.Epochs[r.Best-1].Validation)
	}
}

func TestTrainRefusesBadInput(t *testing.T) {
	a, x := small(t), curves(30, 1)
	train := func(o *TrainOptions) error {
		_, _, err := Train(t.Context(), a, x, o)
		return err
	}
	require.ErrorContains(t, train(&TrainOptions{Memory: 1}), "memory 1")
	require.ErrorContains(t, train(&TrainOptions{Noise: -1}), "noise variance -1")
	require.ErrorContains(t, train(&TrainOptions{Prior: -1}), "prior precision -1")
	require.ErrorContains(t, train(&TrainOptions{Epochs: -1}), "-1 epochs")
	require.Panics(t, func() { train(&TrainOptions{Rule: 7}) })
	require.ErrorContains(t, train(&TrainOptions{Validation: mat.NewDense(1, 12, slices.Repeat([]float64{2}, 12))}), "validation rows: row 0 has 2 in column 0")

	var state *State
	require.NoError(t, train(&TrainOptions{Epochs: 1, Checkpoint: func(s *State) error { state = s.clone(); return nil }}))
	require.ErrorContains(t, train(&TrainOptions{Epochs: 1, Resume: state, Seed: 3}), "its options")
	boom := errors.New("disk full")
	require.ErrorIs(t, train(&TrainOptions{Epochs: 1, Checkpoint: func(*State) error { return boom }}), boom)
	x = curves(30, 3)
	require.ErrorContains(t, train(&TrainOptions{Epochs: 1, Resume: state}), "its rows")
	a = small(t, 3)
	require.ErrorContains(t, train(&TrainOptions{Epochs: 1, Resume: state}), "its network")
	_, _, err := Train(t.Context(), a, new(mat.Dense), nil)
	require.ErrorContains(t, err, "no rows")
}

// A state that is read is the one that was written, and damage is found.
func TestState(t *testing.T) {
	s := &State{Identity: Identity{"n", "r", "o"}, Theta: []float64{1, 2}, GGN: []float64{3, 4}, Moment1: []float64{5, 6}, Moment2: []float64{7, 8}, Step: 9, Loss: 0.5,
		Epochs: []Epoch{{1, 2}, {3, 4}}, Best: 1, BestTheta: []float64{9, 10}, BestGGN: []float64{11, 12}}
	path := filepath.Join(t.TempDir(), "state")
	require.NoError(t, s.Write(path))
	got := testref.Must(ReadState(path))(t)
	require.Equal(t, s, got)
	s.Moment1, s.Moment2, s.Best, s.BestTheta, s.BestGGN = nil, nil, 0, nil, nil
	require.NoError(t, s.Write(path))
	got = testref.Must(ReadState(path))(t)
	require.Equal(t, s, got)
	require.NoError(t, store.Write(path, stateKind, stateVersion, func(w *store.Writer) error {
		w.JSON("header", stateHeader{Best: 3})
		return nil
	}))
	require.ErrorContains(t, testref.Err(ReadState(path)), "impossible")
	require.NoError(t, store.Write(path, stateKind, 1, func(*store.Writer) error { return nil }))
	require.ErrorContains(t, testref.Err(ReadState(path)), "remove it, and train again")
}

// Draws have the variance of the posterior, also across blocks.
func TestDraws(t *testing.T) {
	const n = 3 * blockSize
	theta, h := make([]float64, n), make([]float64, n)
	for i := range h {
		theta[i], h[i] = 2, 3
	}
	dst, scratch := make([]float64, n), make([]float64, n)
	drawTo(dst, scratch, theta, h, 1, normals(1, trainNoise, 5))
	mean, square := 0.0, 0.0
	for _, v := range dst {
		mean += v / n
		square += (v - 2) * (v - 2) / n
	}
	require.InDelta(t, 2, mean, 0.02)
	require.InDelta(t, 0.25, square, 0.02)
	require.NotEqual(t, dst[0], dst[blockSize])
	again := make([]float64, n)
	drawTo(again, scratch, theta, h, 1, normals(1, trainNoise, 6))
	require.NotEqual(t, dst[0], again[0])
}

// A posterior that is read predicts as the one that was written, bit for bit, and for no
// other network.
func TestSave(t *testing.T) {
	a, x := small(t), curves(20, 1)
	p := testref.Must(Fit(t.Context(), a, x, Approximate, 3, 0.5, nil))(t)
	path := filepath.Join(t.TempDir(), "post")
	require.NoError(t, p.Save(path, "by hand"))
	q, made, err := Load(path, a)
	require.NoError(t, err)
	require.Equal(t, "by hand", made)
	require.Equal(t, []float64{3, 0.5}, []float64{q.Prior(), q.Noise()})
	want := testref.Must(p.Draw(t.Context(), x, &DrawOptions{Samples: 3}))(t)
	got := testref.Must(q.Draw(t.Context(), x, &DrawOptions{Samples: 3}))(t)
	require.Equal(t, want, got)

	var e *store.Error
	_, _, err = Load(path, small(t, 3))
	require.ErrorAs(t, err, &e)
	require.ErrorContains(t, err, "another network")
	for _, bad := range []postHeader{{Prior: -1, Noise: 1}, {Noise: 0}, {Noise: 1}} {
		bad.Network, bad.P = p.print(), len(p.h)
		require.NoError(t, store.Write(path, postKind, postVersion, func(w *store.Writer) error {
			w.JSON("about", bad)
			w.Floats("ggn", make([]float64, len(p.h)))
			return nil
		}))
		_, _, err = Load(path, a)
		require.ErrorContains(t, err, "no precisions")
	}
}
