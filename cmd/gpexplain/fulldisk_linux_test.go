package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A disk that fills up while a file is written holds no part of it, and an
// old file of that name as it was.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=16k"); err != nil {
		t.Skipf("needs the right to mount a small disk: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, 0)) })
	old := write(t, filepath.Join(dir, "old"), []byte("content"))
	for _, name := range []string{"new", "old"} {
		path := filepath.Join(dir, name)
		for _, args := range [][]string{
			small("explain", "--html", path),
			small("explain", "--png", path),
			small("importances", "--html", path),
			{"train", "--data", "digits:100,20", "--arch", "mlp:9-10", "--epochs", "1", "--lbfgs", "1", "--out", path},
		} {
			require.Contains(t, refuse(t, 1, args...), "cannot write "+path+": no space left on device; free some space")
			require.Equal(t, []string{"old"}, listing(t, dir))
		}
	}
	require.Equal(t, "content", read(t, old))
}
