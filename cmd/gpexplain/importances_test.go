package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/explain/result"
)

func TestImportances(t *testing.T) {
	ref := openReference(t, "two-moons")
	text := ref.run(t, "importances", "--json", "--top", "10")
	requireSchema(t, "importances", text)
	r := decode[result.ImportanceReport](t, text)
	require.Len(t, r.Importances, 10)
	require.Len(t, r.Curve, ref.n, "the curve is of all N whatever --top is")
	for i, x := range r.Importances {
		require.Equal(t, r.Curve[i], x.Norm)
		// At the mode α is the residual; 1e-6 is the gap the refit may leave.
		require.InDelta(t, ref.Floats("refit_residual")[x.Index], float64(x.Alpha[0]), 1e-6)
		require.Equal(t, ref.Floats("y_train")[x.Index], float64(x.Label))
	}
	all := decode[result.ImportanceReport](t, ref.run(t, "importances", "--json", "--top", "1000"))
	require.Len(t, all.Importances, ref.n, "--top above N lists all N")
}

func TestImportancesPage(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.html")
	text := succeed(t, small("importances", "--top", "3", "--html", page)...)
	require.Contains(t, text, "|α|")
	html, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Contains(t, string(html), "</html>")
}
