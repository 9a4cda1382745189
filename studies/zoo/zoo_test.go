package zoo

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The README shows what was recorded.
func TestRender(t *testing.T) {
	path := filepath.Join(t.TempDir(), "table.md")
	require.NoError(t, Run(t.Context(), io.Discard, []string{"-render", "results.json", "-table", path}))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	require.Contains(t, string(readme), string(text))
}

// Weight space and function space agree on every network that was recorded, and f is
// PyTorch's.
func TestRecorded(t *testing.T) {
	all, err := readResults("results.json")
	require.NoError(t, err)
	require.Len(t, all, 14)
	for _, r := range all {
		require.True(t, r.Agrees, r.Name)
		require.Less(t, r.Worst, 1e-8, r.Name)
		require.Less(t, r.F64, 1e-9, r.Name) // the epsilon of LayerNormalization is float32 in every file
		require.Less(t, r.F32, 1e-6, r.Name) // float32 rounds constants, such as 1/√d
		require.Len(t, r.Steps, 5, r.Name)
	}
}
