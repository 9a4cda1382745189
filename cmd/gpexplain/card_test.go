package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A card says what the posterior's file, the model and the data know, and names in them are no markup.
func TestCard(t *testing.T) {
	dir := t.TempDir()
	table := write(t, filepath.Join(dir, "a.csv"), []byte("a|b,<i>age</i>,y\n1,2,0.5\n2,1,1.5\n3,4,2.5\n4,3,3.5\n5,5,4\n6,7,6\n"))
	net, post, card := filepath.Join(dir, "net.onnx"), filepath.Join(dir, "a.gp"), filepath.Join(dir, "card.md")
	succeed(t, "train", "--quiet", "--data", table, "--arch", "mlp:3-1", "--epochs", "20", "--prior-precision", "1", "--out", net)
	succeed(t, "fit", "--quiet", "--model", net, "--data", table, "--with-inputs", "-o", post)
	require.Empty(t, succeed(t, "card", "--quiet", "--posterior", post, "-o", card))
	text, err := os.ReadFile(card)
	require.NoError(t, err)
	for _, want := range []string{"# net.onnx\n", "It predicts y, from the columns a\\|b,&lt;i&gt;age&lt;/i&gt;.", "\n## What was assumed\n", "SHA-256 ", "| Training rows | 6 |", "file holds the training inputs", "they state no cause"} {
		require.Contains(t, string(text), want)
	}
	require.NotContains(t, string(text), "<i>")

	without := filepath.Join(dir, "b.gp")
	succeed(t, "fit", "--quiet", "--model", net, "--data", table, "-o", without)
	require.Contains(t, succeed(t, "card", "--quiet", "--posterior", without), "holds no training inputs")
	require.Contains(t, refuse(t, 2, "card", "--json"), "fit and record")
	require.Contains(t, refuse(t, 2, "card", "--posterior", post, "-o", post), "--out")
}
