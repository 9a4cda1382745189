//go:build unix

package atomicfile

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/testref"
)

func TestWriteKeepsTheMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.html")
	require.NoError(t, Write(path, text("one")))
	require.NoError(t, os.Chmod(path, 0o600))
	require.NoError(t, Write(path, text("two")))
	info := testref.Must(os.Stat(path))(t)
	require.Equal(t, fs.FileMode(0o600), info.Mode().Perm())
}

func TestWriteFollowsLinks(t *testing.T) {
	dir := t.TempDir()
	real, link := filepath.Join(dir, "real"), filepath.Join(dir, "link")
	require.NoError(t, os.WriteFile(real, []byte("old"), 0o644))
	require.NoError(t, os.Symlink("real", link))
	require.NoError(t, Write(link, text("new")))

	b := testref.Must(os.ReadFile(real))(t)
	require.Equal(t, "new", string(b))
	requireOnly(t, dir, "link", "real")
}

// A link stays a link, and its target is written where the link says: beside
// the link or elsewhere, through further links, and where it is not there yet.
func TestWriteThroughLinks(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "far", "deep"), 0o700))
	require.NoError(t, os.Symlink(filepath.Join("far", "deep"), filepath.Join(dir, "near")))
	for link, to := range map[string]string{
		"beside":   "a",
		"second":   "beside",
		"absolute": filepath.Join(dir, "far", "b"),
		"below":    filepath.Join("far", "c"),
		"around":   "near/../d", // far/d, and not d
	} {
		require.NoError(t, os.Symlink(to, filepath.Join(dir, link)))
	}
	for _, x := range [][2]string{{"second", "a"}, {"beside", "a"}, {"absolute", "far/b"}, {"below", "far/c"}, {"around", "far/d"}} {
		link, file := filepath.Join(dir, x[0]), filepath.Join(dir, x[1])
		for _, content := range []string{"new " + x[0], "again " + x[0]} {
			require.NoError(t, Write(link, text(content)), link)
			b := testref.Must(os.ReadFile(file))(t)
			require.Equal(t, content, string(b))
			info := testref.Must(os.Lstat(link))(t)
			require.Equal(t, fs.ModeSymlink, info.Mode().Type(), "%s is no link any more", link)
		}
	}
	requireOnly(t, dir, "a", "absolute", "around", "below", "beside", "far", "near", "second")
	requireOnly(t, filepath.Join(dir, "far"), "b", "c", "d", "deep")
}

// A link that leads nowhere a file can be is an error, and stays.
func TestWriteThroughBadLinks(t *testing.T) {
	dir := t.TempDir()
	for link, want := range map[string]error{filepath.Join("none", "x"): fs.ErrNotExist, "link": syscall.ELOOP} {
		path := filepath.Join(dir, "link")
		require.NoError(t, os.Symlink(link, path))
		err := Write(path, text("x"))
		require.ErrorIs(t, err, want)
		require.ErrorContains(t, err, "cannot write "+path+": ")
		requireOnly(t, dir, "link")
		require.NoError(t, os.Remove(path))
	}
}
