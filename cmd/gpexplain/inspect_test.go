package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize/network"
)

func TestInspect(t *testing.T) {
	text := succeed(t, "inspect")
	for _, line := range []string{"the built-in network", "Conv × 2", "MaxPool × 2", "outputs C     1", "parameters P  4587", "[1 28 28]", "Outer block", "funcgp.classes = 4,9"} {
		require.Contains(t, text, line)
	}
	x := decode[result.Inspection](t, succeed(t, "inspect", "--json"))
	require.Equal(t, []int{1, 28, 28}, x.Input)
	require.Equal(t, 4587, x.Parameters)
	require.Equal(t, 3, x.Operators["Gemm"])
	require.Len(t, x.Tensors, 10)
	require.Equal(t, "4,9", x.Metadata[keyClasses])
	require.Equal(t, "bernoulli", x.Metadata[keyLikelihood])
	require.Equal(t, "10", x.Metadata[keyPrecision])
	require.Empty(t, x.Normalized)
	require.NotNil(t, x.Normalized)
}

// Layers before a normalization are named without any data; a network of whole numbers is
// not looked at.
func TestInspectNormalized(t *testing.T) {
	ref := openReference(t, "structures/normalized")
	args := append([]string{"inspect"}, ref.args[:2]...)
	require.Equal(t, []string{"0", "1", "3"}, decode[result.Inspection](t, succeed(t, append(args, "--json")...)).Normalized)
	require.Contains(t, succeed(t, args...), "normalized    0: the outputs do not depend on its scale")
}

// The operators that are read are listed without a model, each in one line.
func TestInspectOperators(t *testing.T) {
	text := succeed(t, "inspect", "--operators")
	list := decode[operatorList](t, succeed(t, "inspect", "--operators", "--json"))
	require.Len(t, list.Operators, len(network.Operators()))
	for _, o := range list.Operators {
		require.NotEmpty(t, o.Group)
		require.Regexp(t, `(?m)^  `+regexp.QuoteMeta(o.Name)+` *`+regexp.QuoteMeta(o.Note)+"$", text)
	}
	require.Contains(t, refuse(t, 2, "inspect", "--operators", "--model", "net.onnx"), "--model is not for --operators")
}

// A frozen initializer is no parameter any more.
func TestInspectFrozen(t *testing.T) {
	all := decode[result.Inspection](t, succeed(t, "inspect", "--json"))
	name := all.Tensors[0].Name
	x := decode[result.Inspection](t, succeed(t, "inspect", "--json", "--freeze", name))
	require.Contains(t, x.Fixed, name)
	require.NotContains(t, all.Fixed, name)
	size := 1
	for _, d := range all.Tensors[0].Shape {
		size *= d
	}
	require.Equal(t, all.Parameters-size, x.Parameters)
}

// Every exported network can be looked at, and what it ends with.
func TestInspectExports(t *testing.T) {
	for _, name := range testref.References(t) {
		path := write(t, filepath.Join(t.TempDir(), "model.onnx"), testref.Open(t, name).Model(t))
		x := decode[result.Inspection](t, succeed(t, "inspect", "--json", "--model", path))
		require.Positive(t, x.Parameters, name)
		if name == "exports/mlp-softmax-head-opset17" {
			require.Equal(t, "Softmax", x.Head.Function)
			require.Equal(t, "categorical", *x.Head.Likelihood)
		} else {
			require.Nil(t, x.Head, name)
		}
	}
}

// What a file says cannot steer the terminal.
func TestInspectHostile(t *testing.T) {
	net := testref.Must(network.Sequential([]int{2}, network.Dense{Units: 1}))(t)
	var b bytes.Buffer
	require.NoError(t, net.WithMetadata(map[string]string{"a\x1b[2J\nb": "c\x1b]0;title\a\u202e"}).WriteONNX(&b))
	text := succeed(t, "inspect", "--model", write(t, filepath.Join(t.TempDir(), "m.onnx"), b.Bytes()))
	require.NotContains(t, text, "\x1b")
	require.NotContains(t, text, "\u202e")
	require.Contains(t, text, "a [2J b = c ]0;title")
}

// Every tensor is listed with the decision and the reason, and one in a Constant node as such.
func TestInspectDecisions(t *testing.T) {
	exported := func(name string) string { return filepath.Join("..", "..", "testdata", "parameters", name+".onnx") }
	x := decode[result.Inspection](t, succeed(t, "inspect", "--json", "--model", exported("sinusoidal-unfolded")))
	by := map[string]result.Decision{}
	for _, d := range x.Decisions {
		require.NotEmpty(t, d.Reason)
		by[d.Name] = d
	}
	require.Contains(t, by["add.pe"].Reason, "sine and cosine")
	require.False(t, by["add.pe"].Parameter)
	require.Equal(t, []int{1, 6, 8}, by["add.pe"].Shape)
	require.True(t, by["embed.weight"].Parameter)
	require.Contains(t, by["embed.weight"].Reason, "weight of MatMul")
	for _, p := range x.Tensors {
		require.True(t, by[p.Name].Parameter)
	}
	for _, name := range x.Fixed {
		require.False(t, by[name].Parameter)
	}
	text := succeed(t, "inspect", "--model", exported("sinusoidal-unfolded"))
	require.Regexp(t, `fixed +add\.pe \[1 6 8\]: it holds numbers that follow a formula`, text)
	x = decode[result.Inspection](t, succeed(t, "inspect", "--json", "--model", exported("sinusoidal-unfolded"), "--learn", "add.pe"))
	require.True(t, slices.ContainsFunc(x.Decisions, func(d result.Decision) bool {
		return d.Name == "add.pe" && d.Parameter && d.Reason == "is to be learnt, as asked"
	}))
	text = succeed(t, "inspect", "--model", exported("constant-nodes"))
	require.Regexp(t, `tensor +/Constant_output_0 \[5 3\] in layer 1, at 0, Outer block, in a Constant node: it is the weight of`, text)
	require.Contains(t, text, "weights in Constant nodes")
	require.Regexp(t, `tensor +add\.pe .*\(uncertain\)`, succeed(t, "inspect", "--model", exported("learnt-named-pe")))
}

// What is uncertain about a model is said once by each command, also by one that opens a
// saved posterior.
func TestModelWarningsOnce(t *testing.T) {
	dir := t.TempDir()
	var rows strings.Builder
	rows.WriteString("a,b,c,label\n")
	for i := range 12 {
		fmt.Fprintf(&rows, "%d,%d,%d,%d\n", i%5, i*i%7, i%3, i%2)
	}
	data := write(t, filepath.Join(dir, "rows.csv"), []byte(rows.String()))
	saved := filepath.Join(dir, "posterior")
	flags := []string{"--model", filepath.Join("..", "..", "testdata", "parameters", "constant-nodes.onnx"), "--data", data, "--likelihood", "categorical", "--test-data", data, "--standardize", "no"}
	for _, args := range [][]string{append([]string{"fit", "--out", saved}, flags...), {"predict", "--posterior", saved, "--data", data, "--test-data", data}, append([]string{"predict"}, flags...), append([]string{"explain"}, flags...)} {
		r := gpexplain(t.Context(), args...)
		require.Zero(t, r.code, r.stderr)
		require.Equal(t, 1, strings.Count(strings.Join(strings.Fields(r.stderr+r.stdout), " "), "weights in Constant nodes, taken for parameters"), "%v: %s", args, r.stderr)
	}
}

// TestModelWithWeightsInOtherFiles checks that such a model gives the answers of the one
// with its weights inside, and that a page and a posterior know all its files by their checksums.
func TestModelWithWeightsInOtherFiles(t *testing.T) {
	dir, data, model := loans(t)
	m := testref.Must(onnx.Decode([]byte(read(t, model))))(t)
	folder := filepath.Join(dir, "split")
	apart := testkit.SplitModel(t, m, folder, "net.onnx.data", "sub/more")
	test := write(t, filepath.Join(dir, "test.csv"), []byte("client,income,debt,status\nT-1,10,30,default\n"))
	want := succeed(t, "predict", "--quiet", "--model", model, "--data", data, "--test-data", test)
	require.Equal(t, want, succeed(t, "predict", "--quiet", "--model", apart, "--data", data, "--test-data", test))

	html := filepath.Join(dir, "a.html")
	succeed(t, "explain", "--quiet", "--model", apart, "--data", data, "--test-data", test, "--html", html)
	weights := filepath.Join(folder, "net.onnx.data")
	all := read(t, apart) + read(t, weights) + read(t, filepath.Join(folder, "sub", "more"))
	sum := sha256.Sum256([]byte(all))
	require.Regexp(t, regexp.QuoteMeta(hex.EncodeToString(sum[:])[:12]), read(t, html))

	file := filepath.Join(dir, "a.gp")
	succeed(t, "fit", "--quiet", "--model", apart, "--data", data, "--test-data", test, "-o", file)
	want = succeed(t, "predict", "--quiet", "--posterior", file)
	require.Equal(t, want, succeed(t, "predict", "--quiet", "--posterior", file, "--model", model))
	before := read(t, weights)
	changed := []byte(before)
	changed[len(changed)-1] ^= 1
	write(t, weights, changed)
	require.Contains(t, refuse(t, 1, "predict", "--posterior", file), weights+" has changed since it was fitted (SHA-256 ")
	require.NoError(t, os.Remove(weights))
	require.Contains(t, refuse(t, 1, "predict", "--posterior", file), "a.gp: it was fitted with "+weights+", which is not there (file does not exist); give --model")
	require.Contains(t, refuse(t, 1, "predict", "--model", apart, "--data", data, "--test-data", test),
		`initializer 0 "Dense1.weight": its values are in "net.onnx.data" (external data), which cannot be read from the model's folder: no such file or directory; copy the file that was saved with the model beside it`)
	write(t, weights, []byte(before))
	require.Contains(t, refuse(t, 1, "inspect", "--model", apart, "--max-memory", "200"), "of which 200 may be used; raise --max-memory")
	require.Equal(t, want, succeed(t, "predict", "--quiet", "--posterior", file))
}
