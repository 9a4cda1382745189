package lae

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/glm/autoencoder"
	"github.com/funcgp/funcgp/studies/reproduce"
)

// The study runs at a reduced size, for both rules.
func TestStudy(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	page, err := reproduce.Run(t.Context(), io.Discard, Study, dir, &reproduce.Options{Quick: true, Out: dir, Only: autoencoder.RuleNames()}, reproduce.Part{})
	require.NoError(t, err)
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	for _, want := range []string{"The released rule", "The published rule", "each row once", "0.9993"} {
		require.Contains(t, string(text), want)
	}
	require.FileExists(t, filepath.Join(dir, "autoencoder-released.onnx.posterior"))
	require.FileExists(t, filepath.Join(dir, "autoencoder-published-labels.csv"))
}

// The diagonals are compared at a reduced size on both networks. Only before a convolution does the mixed one differ from
// the exact one.
func TestHessians(t *testing.T) {
	dir := t.TempDir()
	_, err := reproduce.Run(t.Context(), io.Discard, Hessians, dir, &reproduce.Options{Quick: true, Out: dir, Only: Hessians.Sets}, reproduce.Part{})
	require.NoError(t, err)
	diagonals, err := os.ReadFile(filepath.Join(dir, "hessians-convolutional-diagonals.csv"))
	require.NoError(t, err)
	require.Regexp(t, "(?m)^mixed,Dense1.weight,1,1$", string(diagonals))
	require.NotRegexp(t, "(?m)^mixed,Conv2D1.weight,1,1$", string(diagonals))
	scores, err := os.ReadFile(filepath.Join(dir, "hessians-dense.csv"))
	require.NoError(t, err)
	for _, row := range []string{"exact, post hoc", "approximate, online", "the network alone"} {
		require.Contains(t, string(scores), row)
	}
}
