package atomicfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error { _, err := io.WriteString(w, s); return err }
}

func TestWriteCreatesAndReplaces(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.html")
	require.NoError(t, Write(path, text("one")))
	require.NoError(t, os.Chmod(path, 0o600))
	require.NoError(t, Write(path, text("two")))

	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "two", string(b))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode().Perm(), "an existing file keeps its mode")
	requireOnly(t, filepath.Dir(path), "page.html")
}

// An earlier part of a file can be written again, and that of a device cannot.
func TestRewrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "table")
	require.NoError(t, Write(path, func(w io.Writer) error {
		if err := text("0000 rows")(w); err != nil {
			return err
		}
		return w.(Rewriter).Rewrite([]byte("12"), 2)
	}))
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "0012 rows", string(b))
	require.NoError(t, Write(os.DevNull, func(w io.Writer) error {
		_, ok := w.(Rewriter)
		require.False(t, ok)
		return nil
	}))
}

func TestWriteFailureLeavesTheOldFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.html")
	require.NoError(t, Write(path, text("old")))
	broken := errors.New("template broke")
	for name, write := range map[string]func(io.Writer) error{
		"early": func(io.Writer) error { return broken },
		"late": func(w io.Writer) error {
			_, _ = io.WriteString(w, strings.Repeat("x", 1<<16))
			return broken
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := Write(path, write)
			require.ErrorIs(t, err, broken)
			require.Equal(t, "cannot write "+path+": template broke", err.Error())
			b, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, "old", string(b))
			requireOnly(t, filepath.Dir(path), "page.html")
		})
	}
}

func TestWritePanicLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	require.Panics(t, func() {
		_ = Write(filepath.Join(dir, "page.html"), func(io.Writer) error { panic("boom") })
	})
	requireOnly(t, dir)
}

func TestWriteSaysWhatHelps(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		path, want string
		is         error
	}{
		{filepath.Join(dir, "none", "x"), "create its directory first", fs.ErrNotExist},
		{dir, "name a file in it", syscall.EISDIR},
	} {
		err := Write(c.path, text("x"))
		require.ErrorIs(t, err, c.is)
		require.Contains(t, err.Error(), c.want)
		require.Contains(t, err.Error(), c.path)
		require.NotContains(t, err.Error(), ".tmp")
		require.NotContains(t, err.Error(), "\n")
	}
	requireOnly(t, dir)
}

func TestWriteFullDevice(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full on this system")
	}
	err := Write("/dev/full", text("x"))
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.Contains(t, err.Error(), "free some space")
}

func TestWriteFollowsLinks(t *testing.T) {
	dir := t.TempDir()
	real, link := filepath.Join(dir, "real"), filepath.Join(dir, "link")
	require.NoError(t, os.WriteFile(real, []byte("old"), 0o644))
	require.NoError(t, os.Symlink("real", link))
	require.NoError(t, Write(link, text("new")))

	b, err := os.ReadFile(real)
	require.NoError(t, err)
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
			b, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Equal(t, content, string(b))
			info, err := os.Lstat(link)
			require.NoError(t, err)
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

func requireOnly(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	require.Equal(t, names, got)
}
