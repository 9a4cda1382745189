//go:build unix

package console

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/job"
)

// A link names the file that it leads to, and checking it leaves the content.
func TestLinks(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "a.gp"), filepath.Join(dir, "link")
	require.NoError(t, os.WriteFile(file, []byte("content"), 0o600))
	require.NoError(t, os.Symlink(file, link))
	require.NoError(t, Writable(link))
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "content", string(content))
	require.ErrorContains(t, Distinct([]job.FlagPath{{Flag: "--html", Path: link}}, []job.FlagPath{{Flag: "--posterior", Path: file}}), "--posterior and --html both name "+link)
}
