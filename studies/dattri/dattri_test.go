package dattri

import (
	"bytes"
	"encoding/csv"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/studies/evaluate"
)

// tiny are flags for synthetic digits, so few that all parts take seconds.
func tiny(cache, out string, more ...string) []string {
	return append([]string{"-data", "digits:200,40", "-cache", cache, "-out", out, "-train", "60", "-test", "10", "-halves", "20", "-left", "20",
		"-audited", "60", "-seeds", "2", "-networks", "3", "-dim", "16", "-epochs", "4", "-decay", "5", "-strength", "1e-4"}, more...)
}

// cells reads a table of the record: its lines by the first cells up to the numbers, joined.
func cells(t *testing.T, path string, names int) map[string]map[string]float64 {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	lines, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	require.NoError(t, err)
	found := map[string]map[string]float64{}
	for _, line := range lines[1:] {
		key := strings.Join(line[:names], ": ")
		require.NotContains(t, found, key)
		found[key] = map[string]float64{}
		for i, cell := range line[names:] {
			name := lines[0][names+i]
			if _, ok := found[key][name]; ok {
				continue // the limits of a second figure
			}
			v, err := strconv.ParseFloat(cell, 64)
			require.NoError(t, err, "%s, %s", key, name)
			found[key][name] = v
		}
	}
	return found
}

// TestStudy runs all parts on few digits. At the optimum of a regression, whose linearization
// is exact, a removal is nearly what leaving the row out does; TRAK's ways of taking means
// differ; and wrong labels are found more often than by chance.
func TestStudy(t *testing.T) {
	cache, out := t.TempDir(), t.TempDir()
	var said bytes.Buffer
	require.NoError(t, Run(t.Context(), &said, tiny(cache, out)))

	scores := cells(t, filepath.Join(out, "dattri-regression.csv"), 2)
	removal := scores["optimum, δ = 5: removal at the stated δ = 5"]["leave-one-out correlation"]
	require.Greater(t, removal, .95)
	require.Less(t, math.Abs(scores["optimum, δ = 5: random"]["leave-one-out correlation"]), .35)
	require.Greater(t, scores["optimum, δ = 5: removal at the stated δ = 5"]["linear datamodeling score"], scores["optimum, δ = 5: gradient dot"]["linear datamodeling score"])

	ways := cells(t, filepath.Join(out, "dattri-trak-3-16.csv"), 4)
	require.Len(t, ways, 3*5)
	mean, product := ways["halves: 16: 3: mean of products with 1 − p_i"], ways["halves: 16: 3: product of means"]
	require.NotEqual(t, mean, product)

	suspects := cells(t, filepath.Join(out, "dattri-mislabelled.csv"), 3)
	for _, network := range []string{"regression", "mlp"} {
		require.Greater(t, suspects[network+": audit by labels: loss without the row"]["AUROC"], .7)
		require.Greater(t, suspects[network+": removal at the match: own score"]["found in the first 20 %"], .3)
	}
	require.Contains(t, said.String(), "the match is δ = ")

	// A second call computes nothing and writes the same record.
	first := map[string]string{}
	for _, name := range []string{"regression", "trak-3-16", "mislabelled"} {
		path := filepath.Join(out, "dattri-"+name+".csv")
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		first[path] = string(text)
		require.NoError(t, os.Remove(path))
	}
	require.NoError(t, Run(t.Context(), &bytes.Buffer{}, tiny(cache, out)))
	for path, want := range first {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, want, string(text))
	}
	require.ErrorContains(t, Run(t.Context(), &bytes.Buffer{}, tiny(cache, out, "-only", "trak,none")), `there is no part "none"`)
}

// TestMatch checks the match of a regression that is at its optimum under a precision: that
// one, from starts on both sides.
func TestMatch(t *testing.T) {
	s := &study{data: "digits:200,40", train: 80, test: 5, decay: 7}
	d, err := s.open(t.Context(), s.train, s.test)
	require.NoError(t, err)
	r, err := regression.retraining(d, "")
	require.NoError(t, err)
	require.NoError(t, s.atOptimum(t.Context(), r))
	q, err := problem(t.Context(), r, d, evaluate.Run{}, 1)
	require.NoError(t, err)
	for _, start := range []float64{.5, 7, 300} {
		m, err := match(t.Context(), q, start)
		require.NoError(t, err)
		require.InEpsilon(t, 7, start*m.Factor, 5e-3)
	}
}

// TestHalves checks that halves of two sets differ, and that the first ones do not depend on
// how many there are.
func TestHalves(t *testing.T) {
	require.Equal(t, evaluate.Subsets(50, 25, 4, 1)[2], half(50, 2, 1).Rows)
	require.NotEqual(t, half(50, 2, 0).Rows, half(50, 2, 1).Rows)
	require.NotEqual(t, half(50, 2, 0).Seed, half(50, 2, 1).Seed)
}
