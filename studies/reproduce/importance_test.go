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
	for _, want := range []string{"A right and two wrong predictions", "Digits of seed 0 along its curve", "rank 30", "similarity ", `<img src="data:image/png;base64,`, "predicted 4, right"} {
		require.Contains(t, page, want)
	}
	require.NotContains(t, page, "ZgotmplZ", "the template took a picture for something else")
	require.Equal(t, 1, strings.Count(page, "right, with probability"))
	require.LessOrEqual(t, strings.Count(page, "wrong, with probability"), 2)
	require.NotRegexp(t, `(src|href)="https?:`, page, "nothing is loaded from elsewhere")
	similar, err := os.ReadFile(filepath.Join(dir, "importance-similar.csv"))
	require.NoError(t, err)
	require.Zero(t, (strings.Count(string(similar), "\n")-1)%8, "a head and eight digits for each prediction")
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
