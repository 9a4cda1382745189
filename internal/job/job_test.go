package job

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/option"
)

func TestDidYouMean(t *testing.T) {
	verbs := []string{"explain", "predict", "importances", "evidence", "validate", "train", "inspect", "fit"}
	for word, want := range map[string]string{
		"expalin": "explain", "explian": "explain", "Explain": "explain", "predcit": "predict", "import": "importances", "evid": "evidence",
		"trian": "train", "inspekt": "inspect", "fitt": "fit", "bogus": "", "": "", "e": "", "xyz": "",
	} {
		if want != "" {
			want = "; did you mean " + want + "?"
		}
		require.Equal(t, want, DidYouMean(word, verbs), word)
	}
	require.EqualError(t, NotOneOf("method", "nystorm", []string{"exact", "nystrom", "parameters"}), `Method.Name "nystorm" must be exact, nystrom or parameters; did you mean nystrom?`)
	require.Equal(t, `--method "magic" must be exact or parameters`, option.Word(NotOneOf("method", "magic", []string{"exact", "parameters"}), option.Flags))
}

// The number of typing errors is symmetric, 0 only between equal words, and 1 for each error by itself.
func TestTypingErrors(t *testing.T) {
	for _, x := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "abc", 0}, {"abc", "acb", 1}, {"abc", "abx", 1}, {"abc", "abcd", 1}, {"abc", "ab", 1}, {"kitten", "sitting", 3}, {"größe", "grösse", 2}} {
		require.Equal(t, x.want, typingErrors(x.a, x.b), "%s %s", x.a, x.b)
		require.Equal(t, x.want, typingErrors(x.b, x.a), "%s %s", x.b, x.a)
	}
}

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

func TestSizeText(t *testing.T) {
	for bytes, want := range map[int64]string{0: "0 bytes", 999: "999 bytes", 1500: "1.5 kB", 2e6: "2.0 MB", 1.46e9: "1.46 GB", 15.19e9: "15.2 GB", 261.66e9: "262 GB",
		2.9e12: "2.90 TB", 4.2e15: "4200 TB"} {
		require.Equal(t, want, SizeText(bytes))
	}
}
