package dataset

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/testref"
)

// A table is one file, with its test rows two, and data that were made have none.
func TestFilesOfData(t *testing.T) {
	dir := t.TempDir()
	train, test := filepath.Join(dir, "a.csv"), filepath.Join(dir, "b.csv")
	for _, path := range []string{train, test} {
		require.NoError(t, os.WriteFile(path, []byte("x,y\n1,2\n3,4\n"), 0o644))
	}
	d := testref.Must(Open(t.Context(), train, &OpenOptions{}))(t)
	require.Equal(t, []string{train}, d.Files())
	d = testref.Must(Open(t.Context(), train, &OpenOptions{TestFile: test}))(t)
	require.Equal(t, []string{train, test}, d.Files())
	d = testref.Must(Open(t.Context(), "digits:20,10", &OpenOptions{}))(t)
	require.Empty(t, d.Files())
}
