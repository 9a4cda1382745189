package autoencoder

import (
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize/network"
)

// BenchmarkStep is an online step on 50 rows of MNIST.
func BenchmarkStep(b *testing.B) {
	layers := testref.Must(Layers(784, []int{512, 256, 2}, network.Tanh))(b)
	net := testref.Must(network.Sequential(network.Shape{784}, layers...))(b)
	a := testref.Must(New(net, ""))(b)
	x := mat.NewDense(50, 784, nil)
	for i := range 50 {
		for j := range 784 {
			x.Set(i, j, float64((i*j)%7)/7)
		}
	}
	o := testref.Must((&TrainOptions{}).withDefaults(50))(b)
	t := testref.Must(newTraining(a, x, o))(b)
	for b.Loop() {
		if _, err := t.step(b.Context(), x, func(int) noise { return normals(1, trainNoise, uint64(t.s.Step)) }); err != nil {
			b.Fatal(err)
		}
		t.s.Step++
	}
}
