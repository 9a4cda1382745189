package reproduce

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The study names the layers before a normalization, and compares the choices of the
// evidences.
func TestNormalizedQuick(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long under the race detector; shorter tests run the same code")
	}
	page, dir := quick(t, normalized)
	for _, want := range []string{"evidence at θ* (E7)", "evidence at v*, Λ of θ*", "(E9)", "g-prior", "flagged", "Turned digits", "<svg"} {
		require.Contains(t, page, want)
	}
	text, err := os.ReadFile(filepath.Join(dir, "normalized-diagnosis.csv"))
	require.NoError(t, err)
	for layer, flagged := range map[string]string{"Conv2D1.weight": "1 of 1", "BatchNorm1": "1 of 1", "Conv2D2.weight": "1 of 1", "Dense1.weight": "1 of 1", "BatchNorm3": "0 of 1", "Dense2": "0 of 1"} {
		require.Regexp(t, "(?m)^"+layer+",.*,"+flagged+"$", string(text))
	}
	// Each filter before a batch normalization may be scaled alone; the last layer may not be scaled.
	require.Regexp(t, "(?m)^Conv2D2.weight,.*,4,1 of 1$", string(text))
	require.Regexp(t, "(?m)^Dense2,.*,0,0 of 1$", string(text))
	require.FileExists(t, filepath.Join(dir, "normalized-turned.csv"))
	require.FileExists(t, filepath.Join(dir, "normalized-tensors.csv"))
	_, err = normalized.Plan(t.Context(), &Options{Data: dir})
	require.ErrorContains(t, err, "train-images-idx3-ubyte")
}
