package network_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize/network"
)

// TestExportedFiles compares f and J with PyTorch's: networks whose weights are in other
// files, with functions of their own, with a branch, and with several inputs and outputs.
// 1e-12 and 1e-10: what float64 leaves of f and of J.
func TestExportedFiles(t *testing.T) {
	dir := filepath.Join("..", "..", "testdata", "files")
	text, err := os.ReadFile(filepath.Join(dir, "reference.json"))
	require.NoError(t, err)
	var references map[string]struct {
		X, F     [][]float64
		Jacobian map[string][][][]float64
	}
	require.NoError(t, json.Unmarshal(text, &references))
	for _, c := range []struct {
		file, reference, output string
		external                int
	}{
		{"functions.onnx", "residual", "", 0},
		{"one-file.onnx", "residual", "", 1},
		{"many/files.onnx", "residual", "", 14},
		{"decides.onnx", "decides", "", 0},
		{"several.onnx", "mean", "mean", 0},
		{"several.onnx", "spread", "spread", 0},
	} {
		t.Run(c.file+c.output, func(t *testing.T) {
			net, err := network.ReadONNXFile(t.Context(), filepath.Join(dir, filepath.FromSlash(c.file)), &network.ReadOptions{Output: c.output})
			require.NoError(t, err)
			require.Len(t, net.ExternalFiles(), c.external)
			want := references[c.reference]
			d, outputs, _ := net.Dims()
			x := mat.NewDense(len(want.X), d, nil)
			for i, row := range want.X {
				x.SetRow(i, row)
			}
			b, err := net.Linearize(t.Context(), x)
			require.NoError(t, err)
			var j mat.Dense
			b.JacobianTo(&j)
			for n := range want.F {
				testref.RequireClose(t, b.F.RawRowView(n), want.F[n], 1e-12, "f")
				for _, p := range net.Params() {
					for k := range outputs {
						row := j.RawRowView(n*outputs + k)[p.Offset : p.Offset+p.Len()]
						testref.RequireClose(t, row, want.Jacobian[p.Name][n][k], 1e-10, p.Name)
					}
				}
			}
		})
	}
}
