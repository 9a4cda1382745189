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

func TestOpenFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	require.NoError(t, os.WriteFile(path, []byte("text"), 0o600))
	f := testref.Must(Open(t.Context(), path))(t)
	require.EqualValues(t, 4, f.Size())
	text := testref.Must(io.ReadAll(f))(t)
	require.Equal(t, "text", string(text))
	require.NoError(t, testref.Err(f.Seek(1, io.SeekStart)))
	text = testref.Must(io.ReadAll(f))(t)
	require.Equal(t, "ext", string(text))
	require.NoError(t, f.Close())
}

func TestOpenRefuses(t *testing.T) {
	for path, want := range map[string]error{
		"/dev/zero": ErrDevice, "/dev/null": ErrDevice, t.TempDir(): syscall.EISDIR, "absent": fs.ErrNotExist,
	} {
		_, err := Open(t.Context(), path)
		require.ErrorIs(t, err, want, path)
		require.ErrorAs(t, err, new(*fs.PathError))
	}
}

// A pipe without a writer is waited for until the context is done.
func TestOpenPipeWithoutWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, unix.Mkfifo(path, 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	fail := make(chan error)
	go func() { _, err := Open(ctx, path); fail <- err }()
	cancel()
	require.ErrorIs(t, <-fail, context.Canceled)
}

// A read stops when the context is done, before the first byte and after it.
func TestReadPipeStops(t *testing.T) {
	for _, sent := range []string{"", "text"} {
		path := filepath.Join(t.TempDir(), "pipe")
		require.NoError(t, unix.Mkfifo(path, 0o600))
		opened := make(chan *os.File)
		go func() { w, _ := os.OpenFile(path, os.O_WRONLY, 0); opened <- w }()
		ctx, cancel := context.WithCancel(t.Context())
		f := testref.Must(Open(ctx, path))(t)
		require.EqualValues(t, -1, f.Size())
		w := <-opened
		require.NoError(t, testref.Err(io.WriteString(w, sent)))
		got := make([]byte, len(sent))
		require.NoError(t, testref.Err(io.ReadFull(f, got)))
		require.Equal(t, sent, string(got))
		fail := make(chan error)
		go func() { _, err := f.Read(make([]byte, 1)); fail <- err }()
		cancel()
		require.ErrorIs(t, <-fail, context.Canceled)
		require.NoError(t, f.Close())
		require.NoError(t, w.Close())
	}
}

// A context that is done ends the reading of a regular file too.
func TestReadFileStops(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	require.NoError(t, os.WriteFile(path, []byte("text"), 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	f := testref.Must(Open(ctx, path))(t)
	cancel()
	require.ErrorIs(t, testref.Err(f.Read(make([]byte, 1))), context.Canceled)
	require.NoError(t, f.Close())
	require.ErrorIs(t, testref.Err(Open(ctx, path)), context.Canceled)
}

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
