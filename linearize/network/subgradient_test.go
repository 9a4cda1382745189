package network_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/onnx"
)

// A kink is an operator at numbers where it has no derivative, or several, and the
// gradients of the sum of its results that PyTorch takes.
type kink struct {
	Name, Operator string
	Opset          int64
	Attributes     map[string]json.RawMessage
	Shapes         [][]int
	Inputs         [][]float64
	Gradients      [][]float64
}

func (k kink) attributes(t *testing.T) []*onnx.Attribute {
	var list []*onnx.Attribute
	for name, raw := range k.Attributes {
		var ints []int64
		var number float32
		switch {
		case json.Unmarshal(raw, &ints) == nil:
			list = append(list, intsA(name, ints...))
		case name == "fmod":
			list = append(list, intA(name, 1))
		default:
			require.NoError(t, json.Unmarshal(raw, &number))
			list = append(list, floatA(name, number))
		}
	}
	return list
}

// TestSubgradients compares the derivatives at kinks, jumps and ties with those that
// PyTorch takes (testdata/operators/kinks). 1e-15: most are whole numbers or halves.
func TestSubgradients(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "testdata", "operators", "kinks", "kinks.json"))
	require.NoError(t, err)
	var file struct{ Entries []kink }
	require.NoError(t, json.Unmarshal(data, &file))
	require.NotEmpty(t, file.Entries)
	for _, k := range file.Entries {
		t.Run(k.Name, func(t *testing.T) {
			g := newGraph(k.Opset, k.Shapes[0]...)
			names := in(g.op("Add", in("x", g.of(k.Inputs[0], k.Shapes[0]...))))
			for i := 1; i < len(k.Inputs); i++ {
				names = append(names, g.of(k.Inputs[i], k.Shapes[i]...))
			}
			net, err := load(g.output(g.op(k.Operator, names, k.attributes(t)...)))
			if slices.Contains([]string{"Sign", "Floor", "Ceil", "Round"}, k.Operator) {
				require.Equal(t, make([]float64, len(k.Gradients[0])), k.Gradients[0])
				require.ErrorContains(t, err, "does not depend on any parameter")
				return
			}
			require.NoError(t, err)
			d, c, p := net.Dims()
			got := make([]float64, p)
			require.NoError(t, net.VJP(t.Context(), got, mat.NewDense(1, d, nil), mat.NewDense(1, c, slices.Repeat([]float64{1}, c))))
			var want []float64
			for _, gradient := range k.Gradients {
				if len(want) < p { // an exponent that is a whole number is no parameter
					want = append(want, gradient...)
				}
			}
			require.Len(t, want, p)
			for i := range got {
				require.InDelta(t, want[i], got[i], 1e-15*max(1, want[i]), "entry %d of %v", i, got)
			}
		})
	}
}
