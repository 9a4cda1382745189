package lae

import (
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"

	"github.com/funcgp/funcgp/glm/autoencoder"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/studies/reproduce"
)

// The study runs at a reduced size, for both rules.
func TestStudy(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	page, err := reproduce.Run(t.Context(), io.Discard, Study, dir, &reproduce.Options{Quick: true, Out: dir, Only: autoencoder.RuleNames()}, reproduce.Part{})
	require.NoError(t, err)
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	for _, want := range []string{"The released rule", "The published rule", "each row once", "0.9993"} {
		require.Contains(t, string(text), want)
	}
	require.FileExists(t, filepath.Join(dir, "autoencoder-released.onnx.posterior"))
	require.FileExists(t, filepath.Join(dir, "autoencoder-published-labels.csv"))
	require.FileExists(t, filepath.Join(dir, "autoencoder-baselines.csv"))
}

// The diagonals are compared at a reduced size on both networks. Only before a convolution does the mixed one differ from
// the exact one.
func TestHessians(t *testing.T) {
	dir := t.TempDir()
	_, err := reproduce.Run(t.Context(), io.Discard, Hessians, dir, &reproduce.Options{Quick: true, Out: dir, Only: Hessians.Sets}, reproduce.Part{})
	require.NoError(t, err)
	diagonals, err := os.ReadFile(filepath.Join(dir, "hessians-convolutional-diagonals.csv"))
	require.NoError(t, err)
	require.Regexp(t, "(?m)^mixed,Dense1.weight,1,1$", string(diagonals))
	require.NotRegexp(t, "(?m)^mixed,Conv2D1.weight,1,1$", string(diagonals))
	scores, err := os.ReadFile(filepath.Join(dir, "hessians-dense.csv"))
	require.NoError(t, err)
	for _, row := range []string{"exact, post hoc", "approximate, online", "the network alone"} {
		require.Contains(t, string(scores), row)
	}
}

// Networks that lack units are, on average over many, the network itself where it is linear in them; without any missing
// they are the network. The units of the code, and pixels, stay.
func TestWithoutUnits(t *testing.T) {
	layers, err := autoencoder.Layers(7, []int{5, 2}, network.Tanh)
	require.NoError(t, err)
	net, err := network.Seeded(0, network.Shape{7}, layers...)
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(1, 2))
	require.Equal(t, net.Theta(), withoutUnits(net, 0, rng))
	mean := make([]float64, len(net.Theta()))
	const draws = 4000
	for range draws {
		floats.AddScaled(mean, 1.0/draws, withoutUnits(net, 0.2, rng))
	}
	for i, v := range net.Theta() {
		require.InDelta(t, v, mean[i], 0.05*math.Abs(v)+1e-12)
	}
	one := withoutUnits(net, 0.9, rng)
	for _, q := range net.Params() {
		of, was := one[q.Offset:q.Offset+q.Len()], net.Theta()[q.Offset:q.Offset+q.Len()]
		if q.Name == "Dense2.weight" || q.Name == "Dense4.weight" {
			for i, v := range of { // a unit that is missing is missing in all rows
				require.Equal(t, of[i%5] == 0, v == 0)
			}
			continue
		}
		require.Equal(t, was, of, q.Name)
	}
}
