package main

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/onnx"
	"github.com/funcgp/funcgp/internal/testkit"
)

// TestModelWithWeightsInOtherFiles checks that such a model gives the answers of the one
// with its weights inside, and that a page and a posterior know all its files by their checksums.
func TestModelWithWeightsInOtherFiles(t *testing.T) {
	dir, data, model := loans(t)
	m, err := onnx.Decode([]byte(read(t, model)))
	require.NoError(t, err)
	folder := filepath.Join(dir, "split")
	apart := testkit.SplitModel(t, m, folder, "net.onnx.data", "sub/more")
	test := write(t, filepath.Join(dir, "test.csv"), []byte("client,income,debt,status\nT-1,10,30,default\n"))
	want := succeed(t, "predict", "--quiet", "--model", model, "--data", data, "--test-data", test)
	require.Equal(t, want, succeed(t, "predict", "--quiet", "--model", apart, "--data", data, "--test-data", test))

	html := filepath.Join(dir, "a.html")
	succeed(t, "explain", "--quiet", "--model", apart, "--data", data, "--test-data", test, "--html", html)
	weights := filepath.Join(folder, "net.onnx.data")
	all := read(t, apart) + read(t, weights) + read(t, filepath.Join(folder, "sub", "more"))
	sum := sha256.Sum256([]byte(all))
	require.Regexp(t, regexp.QuoteMeta(hex.EncodeToString(sum[:])[:12]), read(t, html))

	file := filepath.Join(dir, "a.gp")
	succeed(t, "fit", "--quiet", "--model", apart, "--data", data, "--test-data", test, "-o", file)
	want = succeed(t, "predict", "--quiet", "--posterior", file)
	require.Equal(t, want, succeed(t, "predict", "--quiet", "--posterior", file, "--model", model))
	before := read(t, weights)
	changed := []byte(before)
	changed[len(changed)-1] ^= 1
	write(t, weights, changed)
	require.Contains(t, refuse(t, 1, "predict", "--posterior", file), weights+" has changed since it was fitted (SHA-256 ")
	require.NoError(t, os.Remove(weights))
	require.Contains(t, refuse(t, 1, "predict", "--posterior", file), "a.gp: it was fitted with "+weights+", which is not there (file does not exist); give --model")
	require.Contains(t, refuse(t, 1, "predict", "--model", apart, "--data", data, "--test-data", test),
		`initializer 0 "Dense1.weight": its values are in "net.onnx.data" (external data), which cannot be read from the model's folder: no such file or directory; copy the file that was saved with the model beside it`)
	write(t, weights, []byte(before))
	require.Contains(t, refuse(t, 1, "inspect", "--model", apart, "--max-memory", "200"), "of which 200 may be used; raise --max-memory")
	require.Equal(t, want, succeed(t, "predict", "--quiet", "--posterior", file))
}
