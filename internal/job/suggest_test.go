package job

import (
	"testing"

	"github.com/stretchr/testify/require"
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
	require.EqualError(t, NotOneOf("method", "nystorm", []string{"exact", "nystrom", "cg"}), `--method "nystorm" must be exact, nystrom or cg; did you mean nystrom?`)
	require.EqualError(t, NotOneOf("method", "magic", []string{"exact", "cg"}), `--method "magic" must be exact or cg`)
}

// The number of typing errors is symmetric, 0 only between equal words, and 1 for each
// error by itself.
func TestTypingErrors(t *testing.T) {
	for _, x := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "abc", 0}, {"abc", "acb", 1}, {"abc", "abx", 1}, {"abc", "abcd", 1}, {"abc", "ab", 1}, {"kitten", "sitting", 3}, {"größe", "grösse", 2}} {
		require.Equal(t, x.want, typingErrors(x.a, x.b), "%s %s", x.a, x.b)
		require.Equal(t, x.want, typingErrors(x.b, x.a), "%s %s", x.b, x.a)
	}
}
