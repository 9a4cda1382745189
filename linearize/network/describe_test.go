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

// TestDescribeNamesBlocks checks that Describe names the kind of block into which
// Linearize puts a parameter.
func TestDescribeNamesBlocks(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range operatorCases() {
		net := mustLoad(t, c.model())
		d, _, _ := net.Dims()
		b, err := net.Linearize(t.Context(), mat.NewDense(1, d, nil))
		if err != nil {
			continue // no derivative at zero
		}
		want := map[int]string{}
		for _, block := range b.Blocks {
			kind := "Full"
			switch block.(type) {
			case *linearize.Outer:
				kind = "Outer"
			case *linearize.Conv:
				kind = "Conv"
			case *linearize.Embedding:
				kind = "Embedding"
			}
			for _, s := range block.Spans() {
				want[s.Offset] = kind
			}
		}
		got := map[int]string{}
		for _, p := range net.Describe().Params {
			got[p.Offset], seen[p.Block] = p.Block, true
		}
		require.Equal(t, want, got, c.name)
	}
	require.Len(t, seen, 4)
}

// TestDescribeFormsNoJacobian checks that Describe does not form a Jacobian, which
// would take 32 MB for the 2000 outputs here.
func TestDescribeFormsNoJacobian(t *testing.T) {
	g := newGraph(13, 3)
	net := mustLoad(t, g.output(g.op("MatMul", in("x", g.param(3, 2000)))))
	var d network.Description
	require.Less(t, allocated(func() { d = net.Describe() }), uint64(1<<20))
	require.Len(t, d.Params, 1)
	require.Equal(t, "Outer", d.Params[0].Block)
}

// Layers of a user, by embedding.
type (
	of    struct{ network.Layer }
	to    struct{ *network.Dense }
	twice struct{ of }
)

// A nil layer anywhere is an error that says which one it is.
func TestNilLayers(t *testing.T) {
	first := network.Dense{Units: 2}
	for name, c := range map[string]struct {
		layer network.Layer
		want  string
	}{
		"nil":                  {nil, "network: layer 1 (<nil>) is nil"},
		"nil pointer":          {(*network.Dense)(nil), "network: layer 1 (*network.Dense) is nil"},
		"embedded nil":         {of{}, "network: layer 1 (network_test.of) is nil or embeds a nil layer"},
		"pointer to it":        {&of{}, "network: layer 1 (*network_test.of) is nil or embeds a nil layer"},
		"embedded nil pointer": {to{}, "network: layer 1 (network_test.to) is nil or embeds a nil layer"},
		"two levels down":      {twice{}, "network: layer 1 (network_test.twice) is nil or embeds a nil layer"},
		"nil in an interface":  {of{(*network.Dense)(nil)}, "network: layer 1 (network_test.of) is nil or embeds a nil layer"},
		"in a residual block":  {network.Residual{Layers: []network.Layer{nil}}, "network: layer Residual1: layer 0 (<nil>) is nil"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := network.Sequential(network.Shape{3}, first, c.layer)
			require.ErrorContains(t, err, c.want)
			requireOneLine(t, err)
			require.Error(t, testref.Err(network.Sequential(network.Shape{3}, c.layer)))
		})
	}
	_, err := network.Sequential(network.Shape{3}, network.Residual{Layers: []network.Layer{network.Dense{}}})
	require.EqualError(t, err, "network: layer Residual1: layer Dense1: 0 units")
}

// A user's type that embeds a layer, and a pointer to one, build that layer; the
// parameters are named after the type.
func TestEmbeddedLayers(t *testing.T) {
	dense := network.Dense{Units: 2}
	want := testref.Must(network.Sequential(network.Shape{3}, dense))(t)
	for name, layer := range map[string]network.Layer{
		"Dense1.weight": &dense, "of1.weight": of{dense}, "to1.weight": &to{&dense}, "twice1.weight": twice{of{dense}},
		"Layer1.weight": struct{ network.Layer }{dense},
	} {
		net := testref.Must(network.Sequential(network.Shape{3}, layer))(t)
		require.Equal(t, name, net.Params()[0].Name)
		require.Equal(t, want.Theta(), net.Theta())
	}
}

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
		return testref.Must(network.ReadONNX(bytes.NewReader(file), &network.ReadOptions{Freeze: freeze}))(t)
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
