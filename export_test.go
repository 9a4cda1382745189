package funcgp_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/linearize/network"
)

// TestExport reads an exported graph as a network and compares its outputs with Predict on test rows.
func TestExport(t *testing.T) {
	p, err := funcgp.Fit(t.Context(), funcgp.Model{}, funcgp.Data{TrainCount: 40}, nil)
	require.NoError(t, err)
	defer p.Close()
	path := filepath.Join(t.TempDir(), "digits.onnx")
	e, err := p.Export(t.Context(), path, 0)
	require.NoError(t, err)
	require.Contains(t, e.Outputs, "term_row")
	for name, v := range e.Errors {
		require.Less(t, v, 1e-9, name)
	}
	x := mat.NewDense(2, 784, nil)
	for i := range 20 {
		x.Set(0, 28*(i+4)+14, 255)
		x.Set(1, 28*14+i+4, 200)
	}
	rows, err := p.Rows(t.Context(), x)
	require.NoError(t, err)
	want, err := p.Predict(t.Context(), rows)
	require.NoError(t, err)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Len(t, data, e.Bytes)
	n, err := network.ReadONNX(bytes.NewReader(data), &network.ReadOptions{Output: "probability"})
	require.NoError(t, err)
	got, err := n.Forward(t.Context(), x)
	require.NoError(t, err)
	for i := range want {
		for k, v := range want[i].Probability {
			require.InDelta(t, float64(v), got.At(i, k), 1e-9)
		}
	}
	_, err = p.Export(t.Context(), path, -2)
	require.ErrorContains(t, err, "terms")
}
