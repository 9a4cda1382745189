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

// TestExportedWrites compares f and J with PyTorch's of networks that write into tensors,
// as each opset exports them. 1e-12 and 1e-10: what float64 leaves of f and of J.
func TestExportedWrites(t *testing.T) {
	dir := filepath.Join("..", "..", "testdata", "writes")
	text := testref.Must(os.ReadFile(filepath.Join(dir, "reference.json")))(t)
	var references map[string]struct {
		Files    []string
		X, F     [][]float64
		Jacobian map[string][][][]float64
	}
	require.NoError(t, json.Unmarshal(text, &references))
	refused := map[string]string{
		"scatterdata":   "numbers that depend on the input, which is not supported",
		"putaccumulate": "it works along the batch dimension, which would mix examples",
	}
	frozen := map[string][]string{"cache": {"keys", "values"}} // buffers, which an export does not tell from parameters
	for name, want := range references {
		for _, file := range want.Files {
			t.Run(file, func(t *testing.T) {
				net, err := network.ReadONNXFile(t.Context(), filepath.Join(dir, file), &network.ReadOptions{Freeze: frozen[name]})
				if refused[name] != "" {
					requireOneLine(t, err)
					require.ErrorContains(t, err, refused[name])
					return
				}
				require.NoError(t, err)
				requireReference(t, net, want.X, want.F, want.Jacobian)
			})
		}
	}
}

// requireReference compares f and J of the rows of x, and J by the parameters' names.
func requireReference(t *testing.T, net *network.Network, rows, f [][]float64, jacobian map[string][][][]float64) {
	t.Helper()
	d, outputs, _ := net.Dims()
	x := mat.NewDense(len(rows), d, nil)
	for i, row := range rows {
		x.SetRow(i, row)
	}
	b := testref.Must(net.Linearize(t.Context(), x))(t)
	var j mat.Dense
	b.JacobianTo(&j)
	for n := range f {
		testref.RequireClose(t, b.F.RawRowView(n), f[n], 1e-12, "f")
		for _, p := range net.Params() {
			require.Contains(t, jacobian, p.Name)
			for k := range outputs {
				row := j.RawRowView(n*outputs + k)[p.Offset : p.Offset+p.Len()]
				testref.RequireClose(t, row, jacobian[p.Name][n][k], 1e-10, p.Name)
			}
		}
	}
}

// TestExportedFiles compares f and J with PyTorch's: networks whose weights are in other
// files, with functions of their own, with a branch, and with several inputs and outputs.
// 1e-12 and 1e-10: what float64 leaves of f and of J.
func TestExportedFiles(t *testing.T) {
	dir := filepath.Join("..", "..", "testdata", "files")
	text := testref.Must(os.ReadFile(filepath.Join(dir, "reference.json")))(t)
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
			requireReference(t, net, want.X, want.F, want.Jacobian)
		})
	}
}
