package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"html"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/testref"
)

// Every output of explain says what a score is, its unit and its sign; the table has the
// error bars.
func TestExplainSaysWhatScoresAre(t *testing.T) {
	rows, _ := trained(t)
	table := filepath.Join(t.TempDir(), "terms.csv")
	text := succeed(t, small("explain", "--json", "--by-layer", "--without", rows[0], "--csv", table)...)
	requireSchema(t, "explain", text)
	r := decode[result.Report](t, text)
	for _, score := range []string{"value", "raw", "removal", "similarity", "sd", "variance_reduction", "layers", "without"} {
		require.NotEmpty(t, r.Meanings[score], score)
	}
	require.Contains(t, r.Meanings["value"], "log-odds of 9 against 4, in nats; a positive one raises the output")
	require.Contains(t, r.Meanings["without"], "log-odds of 9 against 4, in nats; less prediction.mean it is what the change does, positive where the output rises")
	require.NotContains(t, r.Meanings, "networks")
	// The contributions have no score without a meaning.
	var raw struct {
		Outputs []struct{ Contributions []map[string]any }
	}
	require.NoError(t, json.Unmarshal([]byte(text), &raw))
	for name := range raw.Outputs[0].Contributions[0] {
		switch name {
		case "index", "label", "pseudo_target", "alpha", "distinguishable": // no scores
		default:
			require.Contains(t, r.Meanings, name)
		}
	}
	lines := testref.Must(csv.NewReader(strings.NewReader(read(t, table))).ReadAll())(t)
	for i, line := range lines[1:] {
		x := r.Outputs[0].Contributions[i]
		sd := testref.Must(strconv.ParseFloat(line[11], 64))(t)
		require.Equal(t, float64(*x.SD), sd)
		require.Equal(t, []string{"", "", fmt.Sprint(*x.Distinguishable)}, line[12:])
	}

	flip := decode[result.Report](t, succeed(t, small("explain", "--json", "--flip", rows[0]+"=9")...))
	require.NotEmpty(t, flip.Meanings["flip"])
	smallest := decode[result.Report](t, succeed(t, small("explain", "--json", "--smallest-flip", "--flip-tries", "3")...))
	require.NotEmpty(t, smallest.Meanings["smallest_flip"])

	page := filepath.Join(t.TempDir(), "page.html")
	shown := strings.Join(strings.Fields(succeed(t, small("explain", "--html", page)...)), " ")
	require.Contains(t, shown, "Value: what the example adds to f, in the unit of f: + speaks for 4, - for 9; removal: change of f without the example, in the same unit; similar: posterior correlation, no unit, -1 to 1.")
	written := html.UnescapeString(strings.ReplaceAll(read(t, page), "\u00a0", " "))
	require.True(t, strings.Contains(written, "Value: what the example adds to f, in the unit of f: + speaks for 4, − for 9; “without it”: change of f without the example, in the same unit; similarity: posterior correlation, no unit, −1 to 1."))
}
