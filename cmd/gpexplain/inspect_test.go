package main

import (
	"bytes"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/cmd/gpexplain/internal/problem"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize/network"
)

func TestInspect(t *testing.T) {
	text := succeed(t, "inspect")
	for _, line := range []string{"the built-in network", "Conv × 2", "MaxPool × 2", "outputs C     1", "parameters P  4587", "[1 28 28]", "Outer block", "funcgp.classes = 4,9"} {
		require.Contains(t, text, line)
	}
	x := decode[inspection](t, succeed(t, "inspect", "--json"))
	require.Equal(t, []int{1, 28, 28}, x.Input)
	require.Equal(t, 4587, x.Parameters)
	require.Equal(t, 3, x.Operators["Gemm"])
	require.Len(t, x.Tensors, 10)
	require.Equal(t, "4,9", x.Metadata[problem.KeyClasses])
	require.Equal(t, "bernoulli", x.Metadata[problem.KeyLikelihood])
	require.Equal(t, "10", x.Metadata[problem.KeyPrecision])
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
	require.Contains(t, refuse(t, 2, "inspect", "--operators", "--model", "net.onnx"), "leave --model out")
}

// A frozen initializer is no parameter any more.
func TestInspectFrozen(t *testing.T) {
	all := decode[inspection](t, succeed(t, "inspect", "--json"))
	name := all.Tensors[0].Name
	x := decode[inspection](t, succeed(t, "inspect", "--json", "--freeze", name))
	require.Contains(t, x.Fixed, name)
	require.NotContains(t, all.Fixed, name)
	require.Equal(t, all.Parameters-problem.Elements(all.Tensors[0].Shape), x.Parameters)
}

// Every exported network can be looked at, and what it ends with.
func TestInspectExports(t *testing.T) {
	for _, name := range testref.References(t) {
		path := write(t, filepath.Join(t.TempDir(), "model.onnx"), testref.Open(t, name).Model(t))
		x := decode[inspection](t, succeed(t, "inspect", "--json", "--model", path))
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
	net, err := network.Sequential([]int{2}, network.Dense{Units: 1})
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, net.WithMetadata(map[string]string{"a\x1b[2J\nb": "c\x1b]0;title\a\u202e"}).WriteONNX(&b))
	text := succeed(t, "inspect", "--model", write(t, filepath.Join(t.TempDir(), "m.onnx"), b.Bytes()))
	require.NotContains(t, text, "\x1b")
	require.NotContains(t, text, "\u202e")
	require.Contains(t, text, "a [2J b = c ]0;title")
}
