package autoencoder

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/linearize/network"
)

// BenchmarkStep is an online step on 50 rows of MNIST.
func BenchmarkStep(b *testing.B) {
	layers, err := Layers(784, []int{512, 256, 2}, network.Tanh)
	require.NoError(b, err)
	net, err := network.Sequential(network.Shape{784}, layers...)
	require.NoError(b, err)
	a, err := New(net, "")
	require.NoError(b, err)
	x := mat.NewDense(50, 784, nil)
	for i := range 50 {
		for j := range 784 {
			x.Set(i, j, float64((i*j)%7)/7)
		}
	}
	o, err := (&TrainOptions{}).withDefaults(50)
	require.NoError(b, err)
	t, err := newTraining(a, x, o)
	require.NoError(b, err)
	for b.Loop() {
		if _, err := t.step(b.Context(), x, func(int) noise { return normals(1, trainNoise, uint64(t.s.Step)) }); err != nil {
			b.Fatal(err)
		}
		t.s.Step++
	}
}
