package reproduce

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The study shows the sorted curve, the digits at both ends and what is lost without some.
func TestImportanceQuick(t *testing.T) {
	page, dir := quick(t, importance)
	for _, want := range []string{"The sorted curve", "The most and the least important digits", "least important", "at random", "<svg"} {
		require.Contains(t, page, want)
	}
	text, err := os.ReadFile(filepath.Join(dir, "importance-most.csv"))
	require.NoError(t, err)
	require.Len(t, strings.Split(strings.TrimSpace(string(text)), "\n"), 7, "a head and six digits")
	_, err = importance.Plan(t.Context(), &Options{Data: dir})
	require.ErrorContains(t, err, "train-images-idx3-ubyte")
}

func TestImportanceRanks(t *testing.T) {
	require.Equal(t, []float64{2, 0, 1, 3}, ranks([]float64{5, 1, 3, 9}))
	require.Equal(t, 1, shared([]float64{5, 1, 3, 9}, []float64{9, 1, 5, 3}, 2))
	require.InDelta(t, 9./18, shareOf([]float64{9, 5, 3, 1}, .25), 1e-15)
}
