package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp"
)

// TestLastLayer checks that answers by the last layer are those of a network whose other tensors are frozen, and that a
// file remembers the layers.
func TestLastLayer(t *testing.T) {
	x := decode[funcgp.Inspection](t, succeed(t, "inspect", "--json", "--last-layer"))
	var last, others string
	for _, d := range x.Tensors {
		last += "," + d.Name
	}
	all := decode[funcgp.Inspection](t, succeed(t, "inspect", "--json"))
	for _, d := range all.Tensors[:len(all.Tensors)-len(x.Tensors)] {
		others += "," + d.Name
	}
	require.Len(t, x.Tensors, 2)
	ask := []string{"predict", "--json", "--data", "digits:60,20", "--calibrate", "none", "--at", "stated", "--quiet"}
	rows := func(flags ...string) string {
		text, _, _ := strings.Cut(succeed(t, append(ask[:len(ask):len(ask)], flags...)...), `{"schema":"funcgp/predict-summary`)
		return text
	}
	want := rows("--freeze", others[1:])
	require.NotEqual(t, want, rows())
	require.Equal(t, want, rows("--last-layer"))
	require.Equal(t, want, rows("--layers", last[1:]))

	// A file remembers the layers, and refuses others.
	file := filepath.Join(t.TempDir(), "last.gp")
	succeed(t, "fit", "--quiet", "-o", file, "--data", "digits:60,20", "--last-layer")
	succeed(t, "predict", "--posterior", file, "--quiet")
	require.Contains(t, refuse(t, 1, "predict", "--posterior", file, "--layers", "1"), "makes another network")
}
