package main

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/explain/result"
)

// Every term has an error bar whose square is what the example takes off the variance, and
// --by-layer splits terms and sum without changing them.
func TestExplainByLayer(t *testing.T) {
	text := succeed(t, small("explain", "--json", "--by-layer", "--top", "1000")...)
	requireSchema(t, "explain", text)
	got := decode[result.Report](t, text)
	plain := decode[result.Report](t, succeed(t, small("explain", "--json", "--top", "1000")...))
	for k, o := range got.Outputs {
		require.Nil(t, plain.Outputs[k].Layers)
		require.Greater(t, len(o.Layers), 1)
		names, total := map[string]bool{}, 0.0
		parts := make([]float64, len(o.Layers))
		for i, c := range o.Contributions {
			require.Equal(t, plain.Outputs[k].Contributions[i].Value, c.Value)
			sum := 0.0
			for g, v := range c.Layers {
				sum += float64(v)
				parts[g] += float64(v)
			}
			require.InDelta(t, float64(c.Value), sum, 1e-8)
			sd := float64(*c.SD)
			require.InEpsilon(t, float64(*c.VarianceReduction), sd*sd, 1e-12)
			require.Less(t, float64(*c.VarianceReduction), math.Inf(1))
			require.Equal(t, math.Abs(float64(c.Value)) > 2*sd, *c.Distinguishable)
		}
		for g, l := range o.Layers {
			names[l.Name] = true
			require.InDelta(t, float64(l.Sum), parts[g], 1e-8)
			total += float64(l.Sum)
		}
		require.Len(t, names, len(o.Layers))
		require.InDelta(t, float64(o.ContributionSum), total, 1e-8)
	}

	page := filepath.Join(t.TempDir(), "page.html")
	said := succeed(t, small("explain", "--by-layer", "--html", page)...)
	shown, err := os.ReadFile(page)
	require.NoError(t, err)
	for _, l := range got.Outputs[0].Layers {
		require.Contains(t, said, "\n  "+l.Name+" ")
		require.Contains(t, string(shown), `<th scope="row">`+l.Name+`</th>`)
	}
	flat := strings.Join(strings.Fields(said), " ")
	require.Contains(t, flat, "± sd, in the unit of f: how much the term would vary had the example's label been drawn anew")
	require.Contains(t, flat, "Each column adds up to the sum over all examples")
	require.Contains(t, string(shown), "* the term is more than two of these from 0.")
	for line := range strings.Lines(said) {
		require.LessOrEqual(t, len([]rune(line)), 81)
	}

	// Raw terms are split too, and have no error bars in the text, which are those of values.
	raw := succeed(t, small("explain", "--by-layer", "--terms", "raw")...)
	require.NotContains(t, raw, "± sd")
	require.Contains(t, raw, "\n  layer ")
	kept := decode[result.Report](t, succeed(t, small("explain", "--json", "--by-layer", "--method", "kept")...))
	require.InDelta(t, float64(got.Outputs[0].Layers[0].Sum), float64(kept.Outputs[0].Layers[0].Sum), 1e-4)
}

// A method without all rows is refused before the prediction is explained.
func TestExplainByLayerIsRefused(t *testing.T) {
	for _, method := range []string{"nystrom", "subset"} {
		require.Contains(t, refuse(t, 1, small("explain", "--by-layer", "--method", method, "--inducing", "20")...),
			"--by-layer needs a posterior of all training rows, which --method "+method+" is not; give --method exact or kept")
	}
}
