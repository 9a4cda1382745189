//go:build unix

package inputfile

import (
	"context"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/funcgp/funcgp/internal/testref"
)

func TestFolder(t *testing.T) {
	outside := t.TempDir()
	dir := filepath.Join(outside, "model")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "sub"), 0o700))
	write := func(path ...string) {
		path = append([]string{outside}, path...)
		require.NoError(t, os.WriteFile(filepath.Join(path...), []byte(filepath.Base(filepath.Join(path...))), 0o600))
	}
	write("secret")
	write("model", "a")
	write("model", "sub", "b")
	link := func(to, name string) { require.NoError(t, os.Symlink(to, filepath.Join(dir, name))) }
	link("a", "inside")
	link("../secret", "out")
	link("sub", "folder")
	link("loop", "loop")
	require.NoError(t, unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	socket := testref.Must(net.Listen("unix", filepath.Join(dir, "socket")))(t)
	defer socket.Close()

	d := testref.Must(OpenFolder(dir))(t)
	defer d.Close()
	for _, name := range []string{"a", "sub/b", "./a", "sub//b", "./sub/./b"} {
		f, err := d.Open(t.Context(), name)
		require.NoError(t, err, name)
		text := testref.Must(io.ReadAll(f))(t)
		require.Equal(t, filepath.Base(name), string(text))
		require.EqualValues(t, len(text), f.Size())
		require.NoError(t, f.Close())
	}
	for name, want := range map[string]error{
		"": ErrOutside, "..": ErrOutside, "../secret": ErrOutside, "sub/../../secret": ErrOutside, "sub/../a": ErrOutside,
		filepath.Join(dir, "a"): ErrOutside, "/dev/zero": ErrOutside,
		"inside": ErrLink, "out": ErrLink, "folder/b": ErrLink, "loop": ErrLink,
		".": ErrNotFile, "sub": ErrNotFile, "pipe": ErrNotFile, "socket": ErrNotFile,
		"absent": fs.ErrNotExist, "sub/absent": fs.ErrNotExist, "a/b": syscall.ENOTDIR, "a\x00b": syscall.EINVAL, strings.Repeat("a", 300): syscall.ENAMETOOLONG,
	} {
		require.ErrorIs(t, testref.Err(d.Open(t.Context(), name)), want, name)
	}
	ctx, cancel := context.WithCancel(t.Context())
	f := testref.Must(d.Open(ctx, "a"))(t)
	defer f.Close()
	cancel()
	require.ErrorIs(t, testref.Err(f.ReadAt(make([]byte, 1), 0)), context.Canceled)
	require.ErrorIs(t, testref.Err(d.Open(ctx, "a")), context.Canceled)
	require.ErrorContains(t, testref.Err(OpenFolder(filepath.Join(dir, "a"))), "not a directory")
}
