package network_test

import (
	"bytes"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
)

func written(t *testing.T, n *network.Network) []byte {
	t.Helper()
	var file bytes.Buffer
	require.NoError(t, n.WriteONNX(&file))
	return file.Bytes()
}

// A network's fingerprint is that of its graph and parameters: the file it went
// through and its metadata do not count, a frozen tensor and the last place of a
// parameter do.
func TestFingerprint(t *testing.T) {
	of := func(a network.Activation, units int) *network.Network {
		n, err := network.Sequential(network.Shape{3}, network.Dense{Units: units}, a, network.Dense{Units: 2})
		require.NoError(t, err)
		return n
	}
	read := func(file []byte, freeze ...string) *network.Network {
		n := testref.Must(network.ReadONNX(bytes.NewReader(file), &network.ReadOptions{Freeze: freeze}))(t)
		return n
	}
	n := of(network.Tanh, 4)
	want := n.Fingerprint()
	require.NotZero(t, want.Graph)
	require.NotZero(t, want.Parameters)
	file := written(t, n)
	require.Equal(t, want, read(file).Fingerprint())
	require.Equal(t, want, n.WithMetadata(map[string]string{"a": "b"}).Fingerprint())
	b := testref.Must(n.Linearize(t.Context(), mat.NewDense(2, 3, nil)))(t)
	require.Equal(t, want, b.Model)

	theta := n.Theta()
	theta[5] = math.Nextafter(theta[5], 9)
	moved := testref.Must(n.WithTheta(theta))(t)
	// Such a network is written in float64, as another file than before.
	for _, m := range []*network.Network{moved, read(written(t, moved))} {
		require.Equal(t, want.Graph, m.Fingerprint().Graph)
		require.NotEqual(t, want.Parameters, m.Fingerprint().Parameters)
	}
	for name, m := range map[string]*network.Network{"activation": of(network.ReLU, 4), "units": of(network.Tanh, 5), "frozen": read(file, n.Params()[1].Name)} {
		require.NotEqual(t, want.Graph, m.Fingerprint().Graph, name)
	}
}

// Factored changes how a convolution with few weights is held, and nothing else.
func TestFactored(t *testing.T) {
	n, err := network.Sequential(network.Shape{1, 6, 6}, network.Conv2D{Filters: 2, Kernel: 3}, network.Tanh, network.MaxPool2D{Size: 2},
		network.Flatten{}, network.LayerNorm{}, network.Dense{Units: 3})
	require.NoError(t, err)
	x := mat.NewDense(4, 36, nil)
	x.Apply(func(i, j int, _ float64) float64 { return math.Sin(float64(i + 5*j)) }, x)
	want := testref.Must(n.Linearize(t.Context(), x))(t)
	got := testref.Must(n.Factored().Linearize(t.Context(), x))(t)
	require.IsType(t, (*linearize.Conv)(nil), got.Blocks[0])
	for _, b := range want.Blocks {
		_, ok := b.(*linearize.Conv)
		require.False(t, ok)
	}
	require.Equal(t, want.Model, got.Model)
	require.True(t, mat.Equal(want.F, got.F))
	var j, k mat.Dense
	want.JacobianTo(&j)
	got.JacobianTo(&k)
	require.True(t, mat.EqualApprox(&j, &k, 1e-13))
	again := testref.Must(n.Linearize(t.Context(), x))(t)
	require.Len(t, again.Blocks, len(want.Blocks), "the network itself does not change")
}
