package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/cmd/gpexplain/internal/coder"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize/network"
)

// requireRows checks the output of an autoencoder's rows and their summary.
func requireRows(t *testing.T, row, summary, text string) []coder.Row {
	t.Helper()
	var rows []coder.Row
	lines := slices.Collect(strings.Lines(text))
	for _, line := range lines[:len(lines)-1] {
		requireSchema(t, row, line)
		rows = append(rows, decode[coder.Row](t, line))
	}
	requireSchema(t, summary, lines[len(lines)-1])
	return rows
}

// An autoencoder is trained online, goes on from its checkpoint to the same files, and is
// shown, scored and used to fill in pictures.
func TestAutoencoder(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	data := []string{"--data", "digits:120,20", "--quiet"}
	train := func(out string, more ...string) string {
		return succeed(t, slices.Concat([]string{"train", "--arch", "autoencoder:12-2", "--online", "--batch", "20", "--train-count", "100", "--early-stopping", "5", "--out", file(out), "--json"}, data, more)...)
	}
	requireSchema(t, "train-autoencoder", train("a.onnx", "--epochs", "3"))
	train("b.onnx", "--epochs", "1", "--checkpoint", file("state"))
	train("b.onnx", "--epochs", "3", "--checkpoint", file("state"))
	require.Equal(t, read(t, file("a.onnx.posterior"))[64:], read(t, file("b.onnx.posterior"))[64:])

	show := slices.Concat([]string{"reconstruct", "--model", file("a.onnx"), "--samples", "10"}, data)
	code := decode[map[string]any](t, train("a.onnx", "--epochs", "3"))["code"].(string)
	rows := requireRows(t, "reconstruct-row", "reconstruct-summary", succeed(t, slices.Concat(show, []string{"--index", "3,4", "--json", "--html", file("page.html")})...))
	require.Len(t, rows, 2)
	require.Len(t, rows[0].Mean, 784)
	require.Len(t, rows[0].Latent, 2)
	page := read(t, file("page.html"))
	require.Equal(t, 2*(3+5), strings.Count(page, "<img "))
	require.Contains(t, page, "the released rule")
	train("p.onnx", "--epochs", "1", "--online-rule", "published")
	require.Contains(t, read(t, file("p.onnx.posterior")), "the published rule")

	scored := requireRows(t, "autoencoder-row", "autoencoder-summary", succeed(t, slices.Concat([]string{"predict", "--model", file("a.onnx"), "--latent", code, "--posterior", file("a.onnx.posterior"), "--samples", "10", "--index", "3,4", "--json"}, data)...))
	require.Equal(t, rows[1].Scores, scored[1].Scores)
	require.Equal(t, rows[1].LatentCov, scored[1].LatentCov)

	// Post hoc, of the rows that the model records, and by the linearized network.
	posthoc := requireRows(t, "reconstruct-row", "reconstruct-summary", succeed(t, slices.Concat(show, []string{"--curvature", "exact", "--prior-precision", "1e9", "--index", "3", "--json", "--linearized"})...))
	require.Less(t, float64(slices.Max(posthoc[0].SD)), 0.01)
	tuned := succeed(t, slices.Concat(show, []string{"--tune-prior", "evidence", "--index", "3", "--json"})...)
	require.Regexp(t, "fitted to 100 training rows.*by its evidence", tuned)

	// The upper half is filled in from the lower one, whatever is there.
	filled := requireRows(t, "reconstruct-row", "reconstruct-summary", succeed(t, slices.Concat(show, []string{"--index", "3,4", "--missing", "0-390,391", "--json", "--html", file("filled.html")})...))
	set := testref.Must(funcgp.OpenAutoencoder(t.Context(), funcgp.Model{File: file("a.onnx")}, funcgp.Data{Source: "digits:120,20"}, nil, ""))(t)
	defer set.Close()
	x, _, _, err := set.Examples(t.Context(), testref.Must(set.Select(t.Context(), &funcgp.Query{Index: "3,4"}, 0))(t))
	require.NoError(t, err)
	for i, r := range filled {
		require.Equal(t, result.Floats(x.RawRowView(i)[392:]), r.Filled[392:])
		require.NotEqual(t, result.Floats(x.RawRowView(i)[:392]), r.Filled[:392])
	}
	require.Equal(t, 2*(4+5), strings.Count(read(t, file("filled.html")), "<img "))
	require.Contains(t, refuse(t, 1, slices.Concat(show, []string{"--missing", "784"})...), "pixels 0 to 783")

	require.Contains(t, refuse(t, 1, slices.Concat(show, []string{"--noise-variance", "2"})...), "holds one")
	require.Contains(t, refuse(t, 1, slices.Concat(show, []string{"--latent", "nothing"})...), `"nothing"`)
	require.Contains(t, refuse(t, 1, slices.Concat([]string{"predict", "--model", file("a.onnx"), "--posterior", file("state")}, data)...), "state")

	// An encoder and a decoder from two files.
	writeCoder(t, dir)
	two := slices.Concat([]string{"reconstruct", "--model", file("encoder.onnx"), "--decoder", file("decoder.onnx"), "--train-count", "20", "--samples", "3", "--json"}, data)
	require.Len(t, requireRows(t, "reconstruct-row", "reconstruct-summary", succeed(t, two...)), 1)
	two[4] = file("encoder.onnx")
	require.Contains(t, refuse(t, 1, two...), "the same code")
	require.Contains(t, refuse(t, 1, slices.Concat([]string{"reconstruct", "--model", file("encoder.onnx")}, data)...), "2 outputs for inputs of shape [1 28 28]")
}

// writeCoder writes encoder.onnx and decoder.onnx, which are not trained, to a directory.
func writeCoder(t *testing.T, dir string) {
	t.Helper()
	for name, layers := range map[string][]network.Layer{"encoder.onnx": {network.Flatten{}, network.Dense{Units: 2}}, "decoder.onnx": {network.Dense{Units: 784}}} {
		in := network.Shape{1, 28, 28}
		if name == "decoder.onnx" {
			in = network.Shape{2}
		}
		net, err := network.Sequential(in, layers...)
		require.NoError(t, err)
		var b bytes.Buffer
		require.NoError(t, net.WriteONNX(&b))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), b.Bytes(), 0o600))
	}
}

// A plain autoencoder is trained without a posterior, and numbers outside [0, 1] are
// refused.
func TestPlainAutoencoder(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "a.onnx")
	requireSchema(t, "train-autoencoder", succeed(t, "train", "--arch", "autoencoder:8-2", "--data", "digits:60,10", "--epochs", "2", "--lbfgs", "0", "--out", out, "--json", "--quiet"))
	require.NoFileExists(t, out+".posterior")
	table := write(t, filepath.Join(dir, "table.csv"), []byte("a,b,c,y\n0,1,0.5,1\n1,0,7,2\n0.5,0.5,0,1\n"))
	require.Contains(t, refuse(t, 1, "train", "--arch", "autoencoder:2", "--data", table, "--out", out), "train row 1 has 7 in column 2")
}

func TestAutoencoderUsage(t *testing.T) {
	for args, want := range map[string]string{
		"train --out a.onnx --online":                                            "--online is for --arch autoencoder:WIDTHS",
		"train --out a.onnx --curvature exact":                                   "--curvature is for --online",
		"train --out a.onnx --online-rule published":                             "--online-rule is for --online",
		"train --out a.onnx --arch autoencoder:8-2 --online --online-rule no":    "released",
		"train --out a.onnx --arch autoencoder:8-2 --online --online-memory 1":   "below 1",
		"reconstruct --tune-prior loo":                                           "must be evidence",
		"reconstruct --tune-prior evidence --prior-precision 2":                  "both say the prior precision",
		"train --out a.onnx --arch autoencoder:8-0":                              "a code of 0 numbers",
		"train --out a.onnx --arch autoencoder:8-x":                              "widths of the encoder",
		"train --out a.onnx --arch autoencoder:8-2 --online --curvature no":      "approximate",
		"train --out a.onnx --arch autoencoder:8-2 --online --lbfgs 3":           "--lbfgs is not for",
		"train --out a.onnx --arch autoencoder:8-2 --init b.onnx":                "--init is not for",
		"train --out a.onnx --arch autoencoder:8-2 --activation no":              "relu or tanh",
		"train --out a.onnx --arch autoencoder:8-2 --online --checkpoint a.onnx": "a.onnx",
		"reconstruct --samples 0":                                                "--samples 0",
		"reconstruct --pictures -1":                                              "--pictures -1 must be at least 0",
		"reconstruct --latent a --decoder b":                                     "exclude each other",
		"reconstruct --curvature none":                                           "approximate",
		"predict --latent= --index 3":                                            "--latent is empty",
	} {
		require.Contains(t, refuse(t, 2, strings.Fields(args)...), want, args)
	}
}
