package console

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/testref"
)

// full is a disk that is full after two bytes.
type full struct{}

func (full) Write(p []byte) (int, error) {
	return min(2, len(p)), &os.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.ENOSPC}
}

func TestOutputKeepsFirstError(t *testing.T) {
	o := &Output{w: full{}}
	_, first := o.Write([]byte("abc"))
	require.ErrorIs(t, first, syscall.ENOSPC)
	_, err := o.Write([]byte("a"))
	require.Equal(t, first, err)
	require.Equal(t, first, o.Err)
	require.Equal(t, 80, o.Columns())
}

func TestWritable(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, Writable(""))
	require.NoError(t, Writable(filepath.Join(dir, "new")))
	left := testref.Must(os.ReadDir(dir))(t)
	require.Empty(t, left, "nothing is left behind")
	old := filepath.Join(dir, "old")
	require.NoError(t, os.WriteFile(old, []byte("content"), 0o600))
	require.NoError(t, Writable(old))
	content := testref.Must(os.ReadFile(old))(t)
	require.Equal(t, "content", string(content))
	require.ErrorIs(t, Writable(dir), syscall.EISDIR)
	require.ErrorIs(t, Writable(filepath.Join(dir, "none", "a")), os.ErrNotExist)
}

func TestDistinct(t *testing.T) {
	require.NoError(t, Distinct([]job.FlagPath{{Flag: "--html", Path: ""}, {Flag: "--png", Path: ""}}, []job.FlagPath{{Flag: "--model", Path: ""}}))
	require.NoError(t, Distinct([]job.FlagPath{{Flag: "--html", Path: "a"}, {Flag: "--png", Path: "b"}}, []job.FlagPath{{Flag: "--model", Path: "c"}}))
	var usage *job.UsageError
	require.True(t, errors.As(Distinct([]job.FlagPath{{Flag: "--html", Path: "x/../a"}, {Flag: "--png", Path: "a"}}, nil), &usage))
	require.EqualError(t, usage, "--html and --png both name a")
	for _, path := range []string{"-", "/dev/stdout", "/dev/fd/1"} {
		require.ErrorContains(t, Distinct([]job.FlagPath{{Flag: "--out", Path: path}}, nil), "--out "+path+": standard output is for text and JSON")
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "a.gp")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.NoError(t, Distinct([]job.FlagPath{{Flag: "--html", Path: filepath.Join(dir, "new")}}, []job.FlagPath{{Flag: "--posterior", Path: file}}))
}

func TestOutputEscapes(t *testing.T) {
	var b bytes.Buffer
	out := &Output{w: &b}
	names := []string{"\u202eleft", "\x1b[2J", "\u2028", "\u009b31m", "\U000e0041", "\ufeff", "caf\u00e9 <b>"}
	require.NoError(t, json.NewEncoder(out).Encode(names))
	require.NoError(t, testref.Err(out.Write([]byte("a\tb\rc\x1b[1m\n"))))
	line, text, _ := strings.Cut(b.String(), "\n")
	require.NotContains(t, line, "\u202e")
	require.Contains(t, line, `\udb40\udc41`)
	var got []string
	require.NoError(t, json.Unmarshal([]byte(line), &got))
	require.Equal(t, names, got)
	require.Equal(t, "a\tb\\u000dc\\u001b[1m\n", text)
}

func TestProgress(t *testing.T) {
	var b bytes.Buffer
	p := &progress{out: &b}
	for i := range 10 {
		p.show("kernel", i+1, 20)
	}
	require.Contains(t, b.String(), "kernel")
	require.Contains(t, b.String(), "%")
	p.show("newton", 3, 0)
	require.Contains(t, b.String(), "newton 3")
	p.clear()
	require.True(t, strings.HasSuffix(b.String(), "\r"), "the line is empty again")
	p.clear()

	var none *progress
	none.show("kernel", 1, 2)
	none.clear()
}

// Nothing on a pipe, and nothing with --quiet.
func TestProgressOnPipe(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	require.Nil(t, newProgress(w, false).out)
	require.Nil(t, newProgress(&bytes.Buffer{}, false).out)
	require.Nil(t, newProgress(os.Stderr, true).out)
}
