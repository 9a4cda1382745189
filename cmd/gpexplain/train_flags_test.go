package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize/network"
)

// A network with dropout and batch normalization is trained on a table until its
// validation rows say stop, and goes on from its file.
func TestTrainFlags(t *testing.T) {
	dir := t.TempDir()
	model := filepath.Join(dir, "net.onnx")
	run := func(out string, args ...string) *trainReport {
		text := succeed(t, append([]string{"train", "--data", "digits:300,100", "--json", "--out", filepath.Join(dir, out)}, args...)...)
		requireSchema(t, "train", text)
		r := decode[trainReport](t, text)
		return &r
	}
	cnn := []string{"--arch", "bn-cnn", "--dropout", "0.1", "--batch", "50", "--train-count", "250"}
	r := run("net.onnx", append(cnn, "--optimizer", "sgd", "--momentum", "0.5", "--lr", "0.02", "--schedule", "plateau", "--early-stopping", "2", "--epochs", "6", "--no-decay", "normalized,Dense1.bias")...)
	require.Equal(t, 200+16+3200+32+257*64+65*10, r.Parameters)
	require.Greater(t, float64(r.TestAccuracy), 0.5)
	require.NotNil(t, r.ValidationNLL)
	require.LessOrEqual(t, r.BestEpoch, r.Epochs)
	require.Equal(t, 5*r.Epochs, r.Steps)

	// What the file holds is the network that was scored.
	kept := run("same.onnx", append(cnn, "--init", model, "--epochs", "0", "--lbfgs", "0")...)
	require.Equal(t, r.TestNLL, kept.TestNLL)
	require.Nil(t, kept.ValidationNLL)
	require.Zero(t, kept.Steps)
	more := run("more.onnx", append(cnn, "--init", model, "--steps", "7", "--lbfgs", "0", "--schedule", "step", "--schedule-factor", "0.5")...)
	require.Equal(t, 7, more.Steps)
	require.Equal(t, 2, more.Epochs)
	require.Less(t, float64(more.TrainNLL), float64(kept.TrainNLL))

	for _, x := range []struct {
		status int
		want   string
		args   []string
	}{
		{1, "no tensor", []string{"--init", model, "--arch", "lenet5"}},
		{1, "has no parameter", []string{"--no-decay", "weight"}},
		{1, "none is left to stop by", []string{"--early-stopping", "3"}},
		{1, "takes about", []string{"--arch", "bn-cnn", "--batch", "100000000"}},
		{2, "--epochs and --steps", []string{"--epochs", "3", "--steps", "3"}},
		{2, "--momentum is for --optimizer sgd", []string{"--momentum", "0.5"}},
		{2, "--momentum 1 must be", []string{"--optimizer", "sgd", "--momentum", "1"}},
		{2, "--schedule-factor is for --schedule step or plateau", []string{"--schedule-factor", "0.5"}},
		{2, "--schedule-factor 2 must", []string{"--schedule", "step", "--schedule-factor", "2"}},
		{2, "--dropout 1", []string{"--dropout", "1"}},
		{2, "optimizer", []string{"--optimizer", "ada"}},
		{2, "--early-stopping -1 must be at least 0", []string{"--early-stopping", "-1"}},
		{2, "--batch 0 must be at least", []string{"--batch", "0"}},
	} {
		args := append([]string{"train", "--data", "digits:60,20", "--out", filepath.Join(dir, "x.onnx")}, x.args...)
		require.Contains(t, refuse(t, x.status, args...), x.want)
	}
}

// Only what a normalization follows is normalized.
func TestNoDecay(t *testing.T) {
	net := testref.Must(network.Sequential(network.Shape{1, 28, 28}, (&arch{name: "bn-cnn"}).layers(10)...))(t)
	require.Equal(t, []string{"Conv2D1.weight", "Conv2D2.weight"}, net.Normalized())
	d := &descentFlags{noDecay: []string{"normalized", "Dense2.bias"}}
	precision := testref.Must(d.precision(net, 3))(t)
	for _, p := range net.Params() {
		want := 3.0
		if p.Name == "Conv2D1.weight" || p.Name == "Conv2D2.weight" || p.Name == "Dense2.bias" {
			want = 0
		}
		for _, v := range precision[p.Offset : p.Offset+p.Len()] {
			require.Equal(t, want, v, p.Name)
		}
	}
}
