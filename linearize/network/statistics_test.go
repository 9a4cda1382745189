package network

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/testref"
)

// The moments of a batch normalization, the tensor that they are of, and none without one.
func TestRunningStatistics(t *testing.T) {
	n := testref.Must(Seeded(1, Shape{2}, Dense{Units: 3}, BatchNorm{}, ReLU, Dense{Units: 4}, BatchNorm{}, Dense{Units: 1}))(t)
	list := n.RunningStatistics()
	require.Len(t, list, 2)
	for i, units := range []int{3, 4} {
		require.Len(t, list[i].Mean, units)
		for j := range units {
			require.Equal(t, [2]float64{0, 1}, [2]float64{list[i].Mean[j], list[i].Variance[j]}, "as they begin")
		}
		_, size, err := n.WithCode(list[i].Tensor)
		require.NoError(t, err)
		require.Equal(t, units, size)
	}
	// The first tensor is what the first layer makes of the input.
	code, _, err := n.WithCode(list[0].Tensor)
	require.NoError(t, err)
	x := mat.NewDense(1, 2, []float64{.3, -2})
	f, theta := testref.Must(code.Forward(t.Context(), x))(t), n.Theta()
	w, b := n.Params()[0], n.Params()[1]
	for j := range 3 {
		want := theta[b.Offset+j] // W is stored as units×inputs or as inputs×units
		if w.Shape[0] == 3 {
			want += .3*theta[w.Offset+2*j] - 2*theta[w.Offset+2*j+1]
		} else {
			want += .3*theta[w.Offset+j] - 2*theta[w.Offset+3+j]
		}
		require.InDelta(t, want, f.At(0, j), 1e-12)
	}
	require.Empty(t, testref.Must(Seeded(1, Shape{2}, Dense{Units: 1}))(t).RunningStatistics())
}
