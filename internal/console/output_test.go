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
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left, "nothing is left behind")
	old := filepath.Join(dir, "old")
	require.NoError(t, os.WriteFile(old, []byte("content"), 0o600))
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(old, link))
	require.NoError(t, Writable(link))
	content, err := os.ReadFile(old)
	require.NoError(t, err)
	require.Equal(t, "content", string(content))
	require.ErrorIs(t, Writable(dir), syscall.EISDIR)
	require.ErrorIs(t, Writable(filepath.Join(dir, "none", "a")), os.ErrNotExist)
}

func TestDistinct(t *testing.T) {
	require.NoError(t, Distinct([]FlagPath{{"--html", ""}, {"--png", ""}}, []FlagPath{{"--model", ""}}))
	require.NoError(t, Distinct([]FlagPath{{"--html", "a"}, {"--png", "b"}}, []FlagPath{{"--model", "c"}}))
	var usage *UsageError
	require.True(t, errors.As(Distinct([]FlagPath{{"--html", "x/../a"}, {"--png", "a"}}, nil), &usage))
	require.EqualError(t, usage, "--html and --png both name a")
	for _, path := range []string{"-", "/dev/stdout", "/dev/fd/1"} {
		require.ErrorContains(t, Distinct([]FlagPath{{"--out", path}}, nil), "--out "+path+": standard output is for text and JSON")
	}
	dir := t.TempDir()
	file, link := filepath.Join(dir, "a.gp"), filepath.Join(dir, "link")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.NoError(t, os.Symlink(file, link))
	require.ErrorContains(t, Distinct([]FlagPath{{"--html", link}}, []FlagPath{{"--posterior", file}}), "--posterior and --html both name "+link)
	require.NoError(t, Distinct([]FlagPath{{"--html", filepath.Join(dir, "new")}}, []FlagPath{{"--posterior", file}}))
}

func TestCommandLine(t *testing.T) {
	require.Equal(t, "gpexplain explain --html page.html --classes 4,9", CommandLine([]string{"explain", "--html", "page.html", "--classes", "4,9"}))
	require.Equal(t, `gpexplain --html 'my page.html' 'it'\''s' '' '$HOME'`, CommandLine([]string{"--html", "my page.html", "it's", "", "$HOME"}))
}

func TestWith(t *testing.T) {
	args := []string{"explain", "--method", "exact", "--top=3", "--data", "a b"}
	require.Equal(t, []string{"explain", "--top=3", "--data", "a b", "--method", "nystrom"}, With(args, "--method", "nystrom"))
	require.Equal(t, []string{"explain", "--method", "exact", "--data", "a b", "--top", "5"}, With(args, "--top", "5"))
	require.Equal(t, []string{"explain", "--method", "exact", "--top=3", "--data", "a b"}, args)
}

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 4805: "4,805", 1234567: "1,234,567", -100: "-100", -1000: "-1,000"} {
		require.Equal(t, want, Count(n))
	}
}

// What could steer a terminal or hide text is escaped, so that JSON is what it was.
func TestOutputEscapes(t *testing.T) {
	var b bytes.Buffer
	out := &Output{w: &b}
	names := []string{"\u202eleft", "\x1b[2J", "\u2028", "\u009b31m", "\U000e0041", "\ufeff", "caf\u00e9 <b>"}
	require.NoError(t, json.NewEncoder(out).Encode(names))
	_, err := out.Write([]byte("a\tb\rc\x1b[1m\n"))
	require.NoError(t, err)
	line, text, _ := strings.Cut(b.String(), "\n")
	require.NotContains(t, line, "\u202e")
	require.Contains(t, line, `\udb40\udc41`)
	var got []string
	require.NoError(t, json.Unmarshal([]byte(line), &got))
	require.Equal(t, names, got)
	require.Equal(t, "a\tb\\u000dc\\u001b[1m\n", text)
}
