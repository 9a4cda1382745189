package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/explain/result"
)

// Evidence says as text, JSON and page what was found, and other verbs answer from the prior that it wrote.
func TestEvidence(t *testing.T) {
	ref := openReference(t, "snelson")
	path, page := filepath.Join(t.TempDir(), "prior.json"), filepath.Join(t.TempDir(), "page.html")
	text := ref.run(t, "evidence", "--json", "--quiet", "--optimize", "--per-layer", "-o", path, "--html", page)
	requireSchema(t, "evidence", text)
	require.Equal(t, path, decode[result.Evidence](t, text).Optimum.File)
	require.Contains(t, read(t, page), "runs to 0")
	require.Contains(t, ref.run(t, "evidence", "--quiet", "--optimize", "--form", "held-sites", "-o", path), "wrote "+path)
	text = ref.run(t, "evidence", "--json", "--quiet", "--prior", path)
	requireSchema(t, "evidence", text)
	require.True(t, decode[result.Evidence](t, text).HeldSites.Finite())
	for _, verb := range []string{"explain", "importances"} {
		requireSchema(t, verb, ref.run(t, verb, "--json", "--quiet", "--prior", path))
	}
	for _, method := range []string{"subset", "nystrom", "parameters"} {
		requireSchema(t, "evidence", ref.run(t, "evidence", "--json", "--method", method))
	}
	ref.run(t, "evidence", "--quiet", "--optimize", "--g-prior", "-o", path)
	require.Contains(t, ref.run(t, "validate", "--quiet", "--prior", path), "refit log evidence")
	require.Contains(t, refuse(t, 1, slices.Concat([]string{"evidence", "--quiet", "--optimize", "--normalized-apart"}, ref.args)...), "--normalized-apart: the outputs of")
}

// The page shows the four evidences over the precision without --optimize too, and
// loads nothing.
func TestEvidencePage(t *testing.T) {
	ref := openReference(t, "two-moons")
	for _, args := range [][]string{nil, {"--optimize"}, {"--optimize", "--g-prior"}} {
		page := filepath.Join(t.TempDir(), "page.html")
		ref.run(t, "evidence", append(args, "--quiet", "--html", page)...)
		text := read(t, page)
		require.Equal(t, 4, strings.Count(text, `class="curveline`))
		require.Equal(t, 4-3*min(1, len(args)), strings.Count(text, "<circle"))
		require.NotRegexp(t, `<script|http://|https://`, text)
	}
}

func TestOptimizeRefused(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"--per-layer", "--per-layer is for --optimize"},
		{"-o a.json", "--out is for --optimize"},
		{"--keep-noise", "--keep-noise is for --optimize"},
		{"--form refit", "--form is for --optimize"},
		{"--optimize --form x", "--form"},
		{"--optimize --form=", "--form is empty"},
		{"--optimize --per-layer --normalized-apart", "exclude each other"},
		{"--optimize --g-prior --prior a.json", "exclude each other"},
		{"--optimize --method parameters", "--optimize is for --method exact"},
		{"--html a.html --method nystrom", "--html is for --method exact"},
		{"--optimize -o a.json --html a.json", "both name"},
		{"--optimize -o -", "standard output is for text"},
	} {
		require.Contains(t, refuse(t, 2, append([]string{"evidence"}, strings.Fields(c.args)...)...), c.want)
	}
}
