package network_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize/network"
)

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
