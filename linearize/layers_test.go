package linearize_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/linearize"
)

// Layers of a user, by embedding.
type (
	of    struct{ linearize.Layer }
	to    struct{ *linearize.Dense }
	twice struct{ of }
)

// A nil layer, wherever it is, is an error that says which one.
func TestNilLayers(t *testing.T) {
	first := linearize.Dense{Units: 2}
	for name, c := range map[string]struct {
		layer linearize.Layer
		want  string
	}{
		"nil":                  {nil, "linearize: layer 1 (<nil>) is nil"},
		"nil pointer":          {(*linearize.Dense)(nil), "linearize: layer 1 (*linearize.Dense) is nil"},
		"embedded nil":         {of{}, "linearize: layer 1 (linearize_test.of) is nil or embeds a nil layer"},
		"pointer to it":        {&of{}, "linearize: layer 1 (*linearize_test.of) is nil or embeds a nil layer"},
		"embedded nil pointer": {to{}, "linearize: layer 1 (linearize_test.to) is nil or embeds a nil layer"},
		"two levels down":      {twice{}, "linearize: layer 1 (linearize_test.twice) is nil or embeds a nil layer"},
		"nil in an interface":  {of{(*linearize.Dense)(nil)}, "linearize: layer 1 (linearize_test.of) is nil or embeds a nil layer"},
		"in a residual block":  {linearize.Residual{Layers: []linearize.Layer{nil}}, "linearize: layer Residual1: layer 0 (<nil>) is nil"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := linearize.Sequential(linearize.Shape{3}, first, c.layer)
			require.ErrorContains(t, err, c.want)
			requireOneLine(t, err)
			_, err = linearize.Sequential(linearize.Shape{3}, c.layer)
			require.Error(t, err)
		})
	}
	_, err := linearize.Sequential(linearize.Shape{3}, linearize.Residual{Layers: []linearize.Layer{linearize.Dense{}}})
	require.EqualError(t, err, "linearize: layer Residual1: layer Dense1: 0 units")
}

// A layer that a user's type or a pointer holds is that layer; its parameters
// are named after the type.
func TestEmbeddedLayers(t *testing.T) {
	dense := linearize.Dense{Units: 2}
	want, err := linearize.Sequential(linearize.Shape{3}, dense)
	require.NoError(t, err)
	for name, layer := range map[string]linearize.Layer{
		"Dense1.weight": &dense, "of1.weight": of{dense}, "to1.weight": &to{&dense}, "twice1.weight": twice{of{dense}},
		"Layer1.weight": struct{ linearize.Layer }{dense},
	} {
		net, err := linearize.Sequential(linearize.Shape{3}, layer)
		require.NoError(t, err)
		require.Equal(t, name, net.Params()[0].Name)
		require.Equal(t, want.Theta(), net.Theta())
	}
}
