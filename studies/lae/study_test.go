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
