package main

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/testref"
)

// writeTable writes n rows of a table whose label is a word.
func writeTable(t *testing.T, path string, seed uint64, n int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	text := "income (EUR),age,outcome\n"
	for range n {
		income, age := 20_000+1000*rng.IntN(40), 20+rng.IntN(50)
		outcome := "default"
		if float64(income)+8000*rng.NormFloat64() > 38_000 {
			outcome = "repaid"
		}
		text += fmt.Sprintf("%d,%d,%s\n", income, age, outcome)
	}
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
}

// Names of classes are in the JSON, the text, the page and the table of predictions,
// and the page has the checksums of the files and the features in the data's units.
func TestPagesHaveNamesAndChecksums(t *testing.T) {
	dir := t.TempDir()
	train, test, model, page := filepath.Join(dir, "train.csv"), filepath.Join(dir, "test.csv"), filepath.Join(dir, "net.onnx"), filepath.Join(dir, "page.html")
	writeTable(t, train, 1, 60)
	writeTable(t, test, 2, 20)
	succeed(t, "train", "--data", train, "--test-data", test, "--arch", "mlp:3-1", "--activation", "tanh", "--epochs", "2", "--out", model)
	with := func(args ...string) []string {
		return append(args, "--model", model, "--data", train, "--test-data", test)
	}

	out := succeed(t, with("explain", "--json", "--html", page)...)
	requireSchema(t, "explain", out)
	r := decode[result.Report](t, out)
	require.Equal(t, []string{"default", "repaid"}, r.Classes)
	require.Equal(t, r.Classes[int(r.Prediction.Class)], r.Prediction.ClassName)
	require.Equal(t, r.Classes[int(r.Input.Label)], r.Input.LabelName)
	for _, c := range r.Outputs[0].Contributions {
		require.Equal(t, r.Classes[int(c.Label)], c.LabelName)
	}
	examples := 0
	for k, s := range r.Outputs[0].Subtotals {
		require.Equal(t, r.Classes[k], s.LabelName)
		examples += s.Examples
	}
	require.Equal(t, 60, examples)

	html := testref.Must(os.ReadFile(page))(t)
	for _, path := range []string{train, test, model} {
		text := testref.Must(os.ReadFile(path))(t)
		require.Contains(t, string(html), fmt.Sprintf("SHA-256 %x", sha256.Sum256(text)), path)
	}
	require.Contains(t, string(html), "income (EUR)")
	require.Contains(t, string(html), "Test accuracy")
	require.Contains(t, string(html), "Predicted "+r.Prediction.ClassName)
	require.Contains(t, succeed(t, with("explain")...), "P("+r.Prediction.ClassName+")")

	table := filepath.Join(dir, "table.csv")
	rows := succeed(t, with("predict", "--json", "--csv", table, "--html", page)...)
	requirePredictions(t, rows)
	require.Equal(t, 20, strings.Count(rows, `"class_name":"`))
	require.Equal(t, 21, strings.Count(rows, `"classes":["default","repaid"]`), "in every row and in the summary")
	text := testref.Must(os.ReadFile(table))(t)
	require.True(t, strings.HasPrefix(string(text), "index,label,class,probability_default,probability_repaid,"))
	require.Contains(t, string(text), "\n0,"+r.Input.LabelName+","+r.Prediction.ClassName+",")
	html = testref.Must(os.ReadFile(page))(t)
	require.Contains(t, string(html), "probability of repaid")
}

// A card says what the posterior's file, the model and the data know, and names in them are no markup.
func TestCard(t *testing.T) {
	dir := t.TempDir()
	table := write(t, filepath.Join(dir, "a.csv"), []byte("a|b,<i>age</i>,y\n1,2,0.5\n2,1,1.5\n3,4,2.5\n4,3,3.5\n5,5,4\n6,7,6\n"))
	net, post, card := filepath.Join(dir, "net.onnx"), filepath.Join(dir, "a.gp"), filepath.Join(dir, "card.md")
	succeed(t, "train", "--quiet", "--data", table, "--arch", "mlp:3-1", "--epochs", "20", "--prior-precision", "1", "--out", net)
	succeed(t, "fit", "--quiet", "--model", net, "--data", table, "--with-inputs", "-o", post)
	require.Empty(t, succeed(t, "card", "--quiet", "--posterior", post, "-o", card))
	text := testref.Must(os.ReadFile(card))(t)
	for _, want := range []string{"# net.onnx\n", "It predicts y, from the columns a\\|b, &lt;i&gt;age&lt;/i&gt;.", "\n## What was assumed\n", "SHA-256 ", "| Training rows | 6 |", "file holds the training inputs", "they state no cause"} {
		require.Contains(t, string(text), want)
	}
	require.NotContains(t, string(text), "<i>")

	without := filepath.Join(dir, "b.gp")
	succeed(t, "fit", "--quiet", "--model", net, "--data", table, "-o", without)
	require.Contains(t, succeed(t, "card", "--quiet", "--posterior", without), "holds no training inputs")
	require.Contains(t, refuse(t, 2, "card", "--json"), "fit and record")
	require.Contains(t, refuse(t, 2, "card", "--posterior", post, "-o", post), "--out")
}
