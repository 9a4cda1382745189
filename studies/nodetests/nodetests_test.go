package nodetests

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/funcgp/funcgp/internal/onnx"
)

// TestRun runs a folder of two tests of Mul(x, w): one with the right output, one with a wrong one.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	value := func(name string) *onnx.ValueInfo {
		return &onnx.ValueInfo{Name: name, Type: onnx.Double, HasShape: true, Dims: []onnx.Dim{{Value: 2, HasValue: true}, {Value: 1, HasValue: true}}}
	}
	m := &onnx.Model{IRVersion: 8, OpsetImport: []onnx.Opset{{Version: 17}}, Graph: &onnx.Graph{Name: "g",
		Inputs: []*onnx.ValueInfo{value("x"), value("w")}, Outputs: []*onnx.ValueInfo{value("y")},
		Nodes: []*onnx.Node{{OpType: "Mul", Inputs: []string{"x", "w"}, Outputs: []string{"y"}}}}}
	m.Graph.Inputs[1].Dims = m.Graph.Inputs[1].Dims[1:]
	model, err := m.Encode()
	require.NoError(t, err)
	for name, out := range map[string][]float64{"right": {3, -6}, "wrong": {3, 6}} {
		data := filepath.Join(dir, name, "test_data_set_0")
		require.NoError(t, os.MkdirAll(data, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name, "model.onnx"), model, 0o644))
		require.NoError(t, os.WriteFile(filepath.Join(data, "input_0.pb"), tensor([]int64{2, 1}, 1, -2), 0o644))
		require.NoError(t, os.WriteFile(filepath.Join(data, "input_1.pb"), tensor([]int64{1}, 3), 0o644))
		require.NoError(t, os.WriteFile(filepath.Join(data, "output_0.pb"), tensor([]int64{2, 1}, out...), 0o644))
	}
	var out bytes.Buffer
	require.NoError(t, Run(t.Context(), &out, []string{"-data", dir}))
	require.Contains(t, out.String(), "2 tests: 2 read, 1 of them right")
	require.Contains(t, out.String(), "| wrong | 2 |", "12 of the largest, 6")
	require.ErrorContains(t, Run(t.Context(), &out, []string{"-data", t.TempDir()}), "no */model.onnx")
}

// tensor encodes a TensorProto of float64.
func tensor(dims []int64, values ...float64) []byte {
	var b, raw []byte
	for _, d := range dims {
		b = protowire.AppendVarint(protowire.AppendTag(b, 1, protowire.VarintType), uint64(d))
	}
	b = protowire.AppendVarint(protowire.AppendTag(b, 2, protowire.VarintType), uint64(onnx.Double))
	for _, v := range values {
		raw = binary.LittleEndian.AppendUint64(raw, math.Float64bits(v))
	}
	return protowire.AppendBytes(protowire.AppendTag(b, 9, protowire.BytesType), raw)
}
