package dataset

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/testref"
)

func TestReadRows(t *testing.T) {
	path := write(t, t.TempDir(), "rows.txt", []byte("\ufeff# chosen by hand\r\n12\r\n\r\n  3 # a seven\n0"))
	rows := testref.Must(ReadRows(t.Context(), path))(t)
	require.Equal(t, []int{12, 3, 0}, rows)
}

func TestReadRowsErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "r.txt: holds no row numbers"},
		{"# nothing\n\n", "r.txt: holds no row numbers"},
		{"1\n-2\n", `r.txt:2: "-2" is not a row number`},
		{"1\n2 3\n", `r.txt:2: "2 3" is not a row number`},
		{"1.5", `r.txt:1: "1.5" is not a row number`},
		{"99999999999999999999", `r.txt:1: "99999999999999999999" is not a row number`},
		{"1\n" + strings.Repeat("1", 1<<17), "r.txt:2: the line is too long"},
	} {
		require.ErrorContains(t, testref.Err(readRows(strings.NewReader(c.text), "r.txt")), c.want)
	}
}

func FuzzRows(f *testing.F) {
	f.Add("1\n2\n")
	f.Add("# a\n 7 # b\n\n")
	f.Add("-1")
	f.Fuzz(func(t *testing.T, text string) {
		rows, err := readRows(strings.NewReader(text), "r.txt")
		if err != nil {
			require.IsType(t, &Error{}, err)
			require.NotContains(t, err.Error(), "\n")
			return
		}
		require.NotEmpty(t, rows)
		for _, r := range rows {
			require.GreaterOrEqual(t, r, 0)
		}
	})
}
