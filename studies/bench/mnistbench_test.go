package bench

import (
	"image/png"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The recorded results can be shown as a table and a chart.
func TestRender(t *testing.T) {
	dir := t.TempDir()
	table, plot := filepath.Join(dir, "table.md"), filepath.Join(dir, "plot.png")
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	for _, name := range []string{"mnist-qmc.json", "mnist.json"} {
		require.NoError(t, Run(t.Context(), io.Discard, []string{"-render", name, "-table", table, "-plot", plot}))
		text, err := os.ReadFile(table)
		require.NoError(t, err)
		require.Greater(t, strings.Count(string(text), "\n"), 10)
		require.Contains(t, string(readme), string(text), "the README shows what was recorded")
	}
	f, err := os.Open(plot)
	require.NoError(t, err)
	defer f.Close()
	img, err := png.Decode(f)
	require.NoError(t, err)
	require.Greater(t, img.Bounds().Dx(), 1000)
}

// A quarter turn moves the top right corner to the top left, and four of them
// change nothing.
func TestRotate(t *testing.T) {
	px := []float64{1, 2, 3, 4, 5, 6, 7, 8, 9}
	turned := slices.Clone(px)
	rotate(turned, 3)
	require.Equal(t, []float64{3, 6, 9, 2, 5, 8, 1, 4, 7}, turned)
	for range 3 {
		rotate(turned, 3)
	}
	require.Equal(t, px, turned)
}

func TestBadSizes(t *testing.T) {
	require.ErrorContains(t, Run(t.Context(), io.Discard, []string{"-m", "100,50"}), "ascending")
}
