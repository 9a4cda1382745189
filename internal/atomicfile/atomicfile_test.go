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

	"github.com/funcgp/funcgp/internal/testref"
)

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error { _, err := io.WriteString(w, s); return err }
}

func TestWriteCreatesAndReplaces(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.html")
	require.NoError(t, Write(path, text("one")))
	require.NoError(t, Write(path, text("two")))

	b := testref.Must(os.ReadFile(path))(t)
	require.Equal(t, "two", string(b))
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
	b := testref.Must(os.ReadFile(path))(t)
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
			b := testref.Must(os.ReadFile(path))(t)
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

func requireOnly(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries := testref.Must(os.ReadDir(dir))(t)
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	require.Equal(t, names, got)
}
