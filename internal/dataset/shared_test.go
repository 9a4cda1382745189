package dataset

import (
	"os"
	"path/filepath"
	"testing"
)

// shared returns a path below ../shared/data beside the repository, or skips:
// the real data sets are not part of the project.
func shared(t testing.TB, elem ...string) string {
	t.Helper()
	path := filepath.Join(append([]string{"..", "..", "..", "shared", "data"}, elem...)...)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("needs the shared data beside the repository: %v", err)
	}
	return path
}

// write puts a file into a temporary directory and returns its path.
func write(t *testing.T, dir, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
