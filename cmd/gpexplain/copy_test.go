package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/testref"
)

// TestArguments gives a command line by a file: of any length, and with a copy that goes through a link.
func TestArguments(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "arguments")
	from, to, link := filepath.Join(dir, "from"), filepath.Join(dir, "to"), filepath.Join(dir, "link")
	content := bytes.Repeat([]byte("x"), 300_000)
	require.NoError(t, os.WriteFile(from, content, 0o600))
	require.NoError(t, os.Symlink("to", link))
	run := func(args ...string) error {
		require.NoError(t, os.WriteFile(file, testref.Must(json.Marshal(args))(t), 0o600))
		return runMain(t, "@"+file)
	}
	require.NoError(t, run("copy", from, link))
	require.Equal(t, content, testref.Must(os.ReadFile(to))(t))
	require.Equal(t, "to", testref.Must(os.Readlink(link))(t))
	require.ErrorContains(t, run("predict", "--class-names", string(content)+`,"`), "is not a list of names")
	require.ErrorContains(t, run("copy", from, dir), "is a directory; name a file in it")

	for text, want := range map[string]string{"{}": "a JSON list of strings", "[1]": "a JSON list of strings", `["no-such-verb"]`: "no-such-verb"} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		err := runMain(t, "@"+file)
		require.ErrorContains(t, err, want)
	}
	require.ErrorContains(t, runMain(t, "@"+dir+"/none"), "name a file with a JSON list of arguments")
}

func runMain(t *testing.T, args ...string) error {
	return run(t.Context(), &bytes.Buffer{}, &bytes.Buffer{}, args)
}
