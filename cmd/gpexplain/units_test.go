package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
)

// TestModelInUnitsOfData checks that the file of a training says that its inputs are standardized, and that the network
// of raw rows that network.Standardized makes of it predicts as the file does, to the last bit.
func TestModelInUnitsOfData(t *testing.T) {
	dir := t.TempDir()
	net, raw := filepath.Join(dir, "net.onnx"), filepath.Join(dir, "raw.onnx")
	table := write(t, filepath.Join(dir, "a.csv"), []byte("age,income,repaid\n31,2200,yes\n22,1900,no\n54,4100,yes\n43,1300,no\n35,3500,yes\n27,800,no\n61,2900,yes\n39,1000,no\n"))
	succeed(t, "train", "--quiet", "--data", table, "--arch", "mlp:3-1", "--epochs", "20", "--prior-precision", "1", "--out", net)
	of := testref.Must(network.ReadONNXFile(t.Context(), net, nil))(t)
	require.NotNil(t, linearize.FindWarning(of.Warnings(), "inputs-scaled"))
	units := testref.Must(of.Standardized(nil, nil))(t)
	var b bytes.Buffer
	require.NoError(t, units.WriteONNX(&b))
	require.NoError(t, os.WriteFile(raw, b.Bytes(), 0o600))
	rows := func(model string) []string {
		lines := strings.Split(strings.TrimSpace(succeed(t, "predict", "--json", "--quiet", "--model", model, "--data", table, "--test-data", table)), "\n")
		return lines[:len(lines)-1] // without the summary, which names the model
	}
	want := rows(net)
	require.Len(t, want, 8)
	require.Equal(t, want, rows(raw))
}
