package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/testref"
)

// An asked is a network with its data, as flags.
type asked struct {
	name string
	args []string
}

// everyNetwork are those of testdata/corpus, each with some of its training rows, and of testdata/heads,
// of these one for each likelihood that takes their outputs as they are meant, what becomes of the function
// at their end, and what the outputs mean. TestHeads has all.
func everyNetwork(t *testing.T) []asked {
	t.Helper()
	var list []asked
	for _, c := range ordinary {
		e := corpus(t, c.name)
		flags := slices.DeleteFunc(slices.Clone(c.flags), func(s string) bool { return strings.HasPrefix(s, "--refit") })
		if slices.Contains(flags, "--link") {
			flags = nil
		}
		list = append(list, asked{c.name, slices.Concat(e.args(), e.decay(), flags, []string{"--train-count", "60"})})
	}
	dir := filepath.Join("..", "..", "testdata", "heads")
	var expected struct {
		X        [][]float64             `json:"x"`
		Variants map[string]*headVariant `json:"variants"`
	}
	require.NoError(t, json.Unmarshal([]byte(read(t, filepath.Join(dir, "expected.json"))), &expected))
	seen := map[[3]string]bool{}
	for line := range strings.Lines(strings.TrimSpace(headTable)) {
		cells := strings.Fields(line)
		v := expected.Variants[cells[0]]
		for k, likelihood := range []string{"gaussian", "bernoulli", "categorical", "poisson"} {
			kind := [3]string{likelihood, cells[1+k], v.Means}
			if likelihood == "gaussian" {
				kind = [3]string{likelihood} // which takes the outputs of all as they are
			}
			if strings.Contains("XW", cells[1+k]) || seen[kind] {
				continue
			}
			seen[kind] = true
			file := v.table(t, expected.X, likelihood)
			list = append(list, asked{cells[0] + " " + likelihood, []string{"--model", filepath.Join(dir, cells[0]+".onnx"), "--data", file, "--test-data", file, "--target", v.targets(likelihood), "--likelihood", likelihood, "--standardize", "no"}})
		}
	}
	return list
}

// answers are what every door says of a row.
type answers struct {
	Class          result.Float
	NetworkClass   *result.Float `json:"network_class"`
	Probability    []result.Float
	MAPProbability []result.Float `json:"map_probability"`
	Mean           []result.Float
	Covariance     [][]result.Float
	Novelty        result.Novelty
	ObservationSD  []result.Float `json:"observation_sd"`
	FunctionSD     []result.Float `json:"function_sd"`
}

// TestOneAnswer checks that one row has one answer, to the last bit, whichever verb gives it: predict
// alone and with all rows, explain, both from a file, serve, and an explanation in parts. A Nyström
// posterior in parts answers as that of one process to 1e-10.
func TestOneAnswer(t *testing.T) {
	testref.Long(t, "takes many whole commands; run without -short")
	for k, one := range everyNetwork(t) {
		if one.name == "pictures-outside" || one.name == "photo" {
			continue // pictures-in-graph stands for large pictures, which take most of the time
		}
		t.Run(one.name, func(t *testing.T) {
			dir := t.TempDir()
			file := func(name string) string { return filepath.Join(dir, name) }
			run := func(verb string, more ...string) string {
				return succeed(t, slices.Concat([]string{verb, "--quiet", "--json"}, one.args, more)...)
			}
			saved := func(verb string, more ...string) string {
				return succeed(t, slices.Concat([]string{verb, "--quiet", "--json", "--posterior", file("a.gp")}, more)...) // which remembers the rest
			}
			train := run("fit", "-o", file("a.gp"))
			all := strings.Split(strings.TrimSpace(run("predict")), "\n")
			require.Equal(t, all[:len(all)-1], strings.Split(strings.TrimSpace(saved("predict")), "\n")[:len(all)-1], "a file")
			url, stop := serving(t, "--posterior", file("a.gp"), "--quiet")
			i := len(all) - 2 // the last row, which alone is in another place of its tile
			index := decode[prediction](t, all[i]).Index
			at := []string{"--index", fmt.Sprint(index)}
			require.Equal(t, all[i], firstLine(run("predict", at...)), "alone")
			require.Equal(t, all[i], firstLine(saved("predict", at...)), "alone, from a file")
			want := decode[answers](t, all[i])
			require.True(t, want.Novelty.Score.Finite() && want.Novelty.Rank.Finite())
			explained := run("explain", at...)
			same := func(text, what string) {
				got := decode[struct{ Prediction answers }](t, text)
				require.Equal(t, asJSON(t, want), asJSON(t, got.Prediction), what)
			}
			same(explained, "explain")
			fromFile := saved("explain", at...)
			same(fromFile, "explain from a file")
			require.Equal(t, asJSON(t, decode[result.Report](t, explained).Outputs), asJSON(t, decode[result.Report](t, fromFile).Outputs))
			var served struct{ Prediction answers }
			post(t, url+"/v1/predict", map[string]any{"row": index}, &served)
			require.Equal(t, asJSON(t, want), asJSON(t, served.Prediction), "serve predicts")
			post(t, url+"/v1/explain", map[string]any{"row": index}, &served)
			require.Equal(t, asJSON(t, want), asJSON(t, served.Prediction), "serve explains")
			if k < len(ordinary) || strings.Contains(one.name, "categorical") {
				parts := []string{file("0.terms"), file("1.terms")}
				for n, path := range parts {
					succeed(t, slices.Concat([]string{"explain", "--quiet", "--posterior", file("a.gp"), "--shard", fmt.Sprintf("%d/2", n), "-o", path}, at)...)
				}
				merged := succeed(t, append([]string{"merge", "--quiet", "--json"}, parts...)...)
				same(merged, "an explanation in parts")
				requireSameJSON(t, fromFile, merged, "timings")
			}
			code, said := stop()
			require.Zero(t, code, said)
			requireSameJSON(t, asJSON(t, decode[result.Saved](t, train).Fit), asJSON(t, decode[predictSummary](t, all[len(all)-1]).Fit))
			if k < len(ordinary) {
				one.requireParts(t, dir)
			}
		})
	}
}

// requireParts compares a Nyström posterior that is fitted in parts with that of one process.
func (a *asked) requireParts(t *testing.T, dir string) {
	t.Helper()
	file := func(name string) string { return filepath.Join(dir, name) }
	nystrom := []string{"--quiet", "--method", "nystrom", "--inducing", "15"}
	succeed(t, slices.Concat([]string{"fit", "-o", file("whole.gp")}, nystrom, a.args)...)
	succeed(t, slices.Concat([]string{"fit", "--select-only", "-o", file("z.gp")}, nystrom, a.args)...)
	succeed(t, append([]string{"merge", "--quiet", "-o", file("merged.gp")}, fitParts(t, dir, "part", 3, "--inducing-file", file("z.gp"))...)...)
	for _, verb := range []string{"predict", "explain"} {
		ask := func(posterior string) string {
			return firstLine(succeed(t, verb, "--quiet", "--json", "--posterior", file(posterior)))
		}
		// Raw terms multiply rounding by up to 1e6, as they cancel (E12).
		requireSameJSON(t, ask("whole.gp"), ask("merged.gp"), "timings", "raw_cancellation", "raw", "alpha")
	}
	require.NoError(t, os.Remove(file("z.gp")))
}
