package influence

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/studies/trained"
)

// TestResumes runs the study on a line with noise, and again from its steps: the records are the same, and
// removals tell what networks become that are trained on halves.
func TestResumes(t *testing.T) {
	dir := t.TempDir()
	for part, n := range map[string]int{"train": 40, "test": 8} {
		var b strings.Builder
		b.WriteString("x1,x2,y\n")
		for i := range n {
			x := math.Sin(float64(7*i + n))
			fmt.Fprintf(&b, "%v,%v,%v\n", x, math.Cos(float64(i*i)), x+math.Sin(float64(31*i*i)))
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, part+".csv"), []byte(b.String()), 0o644))
	}
	noise, err := glm.NewGaussian(1)
	require.NoError(t, err)
	s := &study{out: io.Discard, Flags: trained.Flags{Cache: filepath.Join(dir, "cache"), Records: filepath.Join(dir, "records"), Shared: dir}, halves: 20, runs: 2, test: 8, train: 40,
		tables: []trained.Table{{Name: "line", File: "%s.csv", Likelihood: noise, Outputs: 1, Epochs: 2500, Lambda: 0.1}}}
	require.NoError(t, s.run(context.Background()))
	first, err := os.ReadFile(filepath.Join(dir, "records", "influence.csv"))
	require.NoError(t, err)
	require.NoError(t, s.run(context.Background()))
	again, err := os.ReadFile(filepath.Join(dir, "records", "influence.csv"))
	require.NoError(t, err)
	require.Equal(t, string(first), string(again))
	list, err := s.judge(context.Background(), &s.tables[0])
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Greater(t, list[0].Scores["removal ×1"].Mean, 0.5)
	require.Greater(t, list[0].Ceiling, list[0].Scores["removal ×1"].Mean-0.1)
}
