package main

import (
	"bytes"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/internal/problem"
	"github.com/funcgp/funcgp/internal/testref"
)

// changed returns the built-in network after a change to its graph.
func changed(t *testing.T, change func(m *onnx.Model)) []byte {
	t.Helper()
	m := testref.Must(onnx.Decode(problem.Builtin))(t)
	change(m)
	b := testref.Must(m.Encode())(t)
	return b
}

// promise is a model whose one tensor claims 2^60 elements and holds none.
func promise() []byte {
	message := func(b []byte, field protowire.Number, content []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), content)
	}
	var tensor []byte
	for range 2 {
		tensor = protowire.AppendVarint(protowire.AppendTag(tensor, 1, protowire.VarintType), 1<<30) // dims
	}
	tensor = protowire.AppendVarint(protowire.AppendTag(tensor, 2, protowire.VarintType), 1) // float
	tensor = message(tensor, 8, []byte("w"))
	graph := message(nil, 5, tensor)
	return message(protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 8), 7, graph)
}

// node finds an operator of the built-in network.
func node(m *onnx.Model, op string) *onnx.Node {
	return m.Graph.Nodes[slices.IndexFunc(m.Graph.Nodes, func(n *onnx.Node) bool { return n.OpType == op })]
}

func TestBadModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	random := make([]byte, 4096)
	for i := range random {
		random[i] = byte(rng.Uint32())
	}
	meta := func(key, value string) []byte {
		return changed(t, func(m *onnx.Model) {
			for i := range m.Metadata {
				if m.Metadata[i].Key == key {
					m.Metadata[i].Value = value
				}
			}
		})
	}
	for name, x := range map[string]struct {
		model []byte
		says  string
	}{
		"empty":     {nil, "empty"},
		"truncated": {problem.Builtin[:len(problem.Builtin)/2], "export"},
		"cut short": {problem.Builtin[:len(problem.Builtin)-1], "export"},
		"random":    {random, "export"},
		"text":      {[]byte("this is no model\n"), "export"},
		"2^60":      {promise(), "1073741824"},
		"cycle": {changed(t, func(m *onnx.Model) {
			first := m.Graph.Nodes[0]
			first.Inputs[0] = m.Graph.Nodes[len(m.Graph.Nodes)-1].Outputs[0]
		}), "cycle"},
		"missing input":    {changed(t, func(m *onnx.Model) { node(m, "Relu").Inputs[0] = "nowhere" }), "nowhere"},
		"unknown operator": {changed(t, func(m *onnx.Model) { node(m, "Relu").OpType = "Frobnicate" }), "Frobnicate"},
		"wrong shapes": {changed(t, func(m *onnx.Model) {
			w := m.Graph.Initializers[slices.IndexFunc(m.Graph.Initializers, func(w *onnx.Tensor) bool { return w.Name == "Dense1.weight" })]
			w.Dims = []int64{128, 25}
		}), "Gemm"},
		"NaN weight":      {changed(t, func(m *onnx.Model) { m.Graph.Initializers[2].Floats[5] = math.NaN() }), m2(t)},
		"infinite weight": {changed(t, func(m *onnx.Model) { m.Graph.Initializers[2].Floats[5] = math.Inf(1) }), m2(t)},
		"no output":       {changed(t, func(m *onnx.Model) { m.Graph.Outputs = nil }), "output"},
		"control characters": {changed(t, func(m *onnx.Model) {
			n := node(m, "Relu")
			n.Name, n.OpType = "a\nb\x1b[31m"+strings.Repeat("x", 1<<16), "No\nSuch"
		}), ""},
		"bad likelihood":       {meta(problem.KeyLikelihood, "student"), problem.KeyLikelihood},
		"bad precision":        {meta(problem.KeyPrecision, "-1"), problem.KeyPrecision},
		"bad classes":          {meta(problem.KeyClasses, "4;9"), problem.KeyClasses},
		"too many classes":     {meta(problem.KeyClasses, "1,2,3"), problem.KeyClasses},
		"classes not in data":  {meta(problem.KeyClasses, "4,77"), "77"},
		"rows of other labels": {meta(problem.KeyClasses, "4,8"), "--train-count"},
		"bad rows":             {meta(problem.KeyRows, "1-999999999999"), problem.KeyRows},
		"row past the end":     {meta(problem.KeyRows, "1,20001"), "20001"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := write(t, filepath.Join(dir, "bad.onnx"), x.model)
			for _, verb := range []string{"explain", "predict"} {
				args := []string{verb, "--model", path}
				if verb == "explain" {
					args = append(args, "--html", filepath.Join(dir, "page.html"))
				}
				line := refuse(t, 1, args...)
				require.Contains(t, line, x.says)
				require.Less(t, len(line), 1200)
				require.NotContains(t, line, "\x1b")
				if !strings.HasPrefix(name, "classes not") { // for which the data are at fault
					require.Contains(t, line, path)
				}
				require.Contains(t, line, "; ", "a remedy")
				require.Equal(t, []string{"bad.onnx"}, listing(t, dir))
			}
		})
	}
}

// m2 is the name of the third initializer, which the message must hold.
func m2(t *testing.T) string {
	m := testref.Must(onnx.Decode(problem.Builtin))(t)
	return m.Graph.Initializers[2].Name
}

func TestModelPath(t *testing.T) {
	dir := t.TempDir()
	require.Contains(t, refuse(t, 1, "inspect", "--model", filepath.Join(dir, "none.onnx")), "no such file")
	require.Contains(t, refuse(t, 1, "inspect", "--model", dir), "is a directory")
	require.Contains(t, refuse(t, 1, "inspect", "--freeze", "nothing"), `"nothing"`)
	if os.Getuid() > 0 { // neither root nor on Windows, which know no such mode
		locked := write(t, filepath.Join(dir, "locked.onnx"), problem.Builtin)
		require.NoError(t, os.Chmod(locked, 0))
		require.Contains(t, refuse(t, 1, "inspect", "--model", locked), "permission denied")
	}
	// A name with spaces and letters of any alphabet is a name.
	odd := write(t, filepath.Join(dir, "mein Netz – 模型.onnx"), problem.Builtin)
	require.Contains(t, succeed(t, "inspect", "--model", odd), odd)
}

// Any damage to the file is one line or no damage at all.
func TestDamagedModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	path := filepath.Join(t.TempDir(), "m.onnx")
	for range 100 {
		b := bytes.Clone(problem.Builtin)
		for range 1 + rng.IntN(4) {
			b[rng.IntN(len(b))] ^= 1 << rng.IntN(8)
		}
		write(t, path, b)
		if r := gpexplain(t.Context(), "inspect", "--model", path); r.code != 0 {
			require.Equal(t, 1, r.code)
			requireOneLine(t, r.stderr)
		}
	}
}

// A file that is as ONNX has it, but holds what is not read, is not called damaged, and no
// message names a package or asks to change the network.
func TestUnreadModel(t *testing.T) {
	unread := func(m *onnx.Model) {
		m.Graph.Nodes[1].OpType, m.Graph.Nodes[3].OpType = "Unique", "Unique"
		m.Graph.Nodes[2].OpType, m.Graph.Nodes[2].Domain = "Fused", "com.example"
	}
	for name, x := range map[string]struct {
		change func(m *onnx.Model)
		says   []string
	}{
		"operators":  {unread, []string{`node 1 "`, `node 3 "`, "(Unique)", "(com.example.Fused)", "2 operators of opset", "gpexplain inspect --operators"}},
		"input type": {func(m *onnx.Model) { m.Graph.Inputs[0].Type = onnx.String }, []string{"string"}},
		"no batch":   {func(m *onnx.Model) { m.Graph.Inputs[0].Dims[1] = onnx.Dim{Param: "k"} }, []string{"not a fixed number"}},
		"opset":      {func(m *onnx.Model) { m.OpsetImport[0].Version = 99 }, []string{"opset is 99"}},
	} {
		path := write(t, filepath.Join(t.TempDir(), "m.onnx"), changed(t, x.change))
		line := strings.ReplaceAll(refuse(t, 1, "inspect", "--model", path), path, "m")
		for _, text := range x.says {
			require.Contains(t, line, text, name)
		}
		for _, text := range []string{"damaged", "network: ", "onnx: ", "change the model", "rewrite"} {
			require.NotContains(t, line, text, name)
		}
	}
}
