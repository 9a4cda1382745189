package job

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOneLine(t *testing.T) {
	long := OneLine(strings.Repeat("é", 5000))
	require.Len(t, []rune(long), mostRunes+1)
	require.Equal(t, "abc…", Cut("abcd", 3))
	require.Equal(t, "abc", Cut("abc", 3))
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
