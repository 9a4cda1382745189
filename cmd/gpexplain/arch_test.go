package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/problem"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize/network"
)

func TestArch(t *testing.T) {
	for _, x := range []struct {
		name string
		in   network.Shape
		c, p int
	}{
		{"thesis-cnn", network.Shape{1, 28, 28}, 1, 4587}, // [thesis]
		{"thesis-cnn", network.Shape{1, 28, 28}, 10, 4587 + 9*26},
		{"lenet5", network.Shape{1, 28, 28}, 10, 44426},
		{"bn-cnn", network.Shape{1, 28, 28}, 10, 200 + 16 + 3200 + 32 + 257*64 + 65*10},
		{"mlp:128-64-10", network.Shape{1, 28, 28}, 10, 109386},
		{"mlp:3", network.Shape{5}, 3, 18},
	} {
		a := testref.Must(parseArch(x.name, "tanh", 0.1))(t)
		net := testref.Must(network.Sequential(x.in, a.layers(x.c)...))(t)
		_, c, p := net.Dims()
		require.Equal(t, x.c, c)
		require.Equal(t, x.p, p)
		if a.widths != nil {
			require.EqualValues(t, p, a.parameters(problem.Elements(x.in)))
		}
	}
}
