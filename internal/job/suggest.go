package job

import (
	"fmt"
	"slices"
	"strings"
)

// NotOneOf is the usage error of a flag whose value is none of a list.
func NotOneOf(flag, value string, list []string) error {
	last := len(list) - 1
	return Usagef("--%s %q must be %s or %s%s", flag, value, strings.Join(list[:last], ", "), list[last], DidYouMean(value, list))
}

// DidYouMean returns "; did you mean X?" for the word of a list that has the fewest typing errors, at most
// one in three letters, or else is the only one that begins with the word, and "" where there is none.
func DidYouMean(word string, list []string) string {
	word = strings.ToLower(word)
	near, fewest := "", len([]rune(word))/3+1
	var longer []string
	for _, w := range list {
		if d := typingErrors(word, w); d < fewest {
			near, fewest = w, d
		}
		if strings.HasPrefix(w, word) && len(word) > 1 {
			longer = append(longer, w)
		}
	}
	if near == "" && len(longer) == 1 {
		near = longer[0]
	}
	if near == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %s?", near)
}

// typingErrors counts the letters that are missing, too many, wrong or swapped with
// their neighbour, which is the optimal string alignment distance.
func typingErrors(a, b string) int {
	x, y := []rune(a), []rune(b)
	rows := make([][]int, len(x)+1) // rows[i][j]: between the first i and the first j letters
	for i := range rows {
		rows[i] = make([]int, len(y)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(x); i++ {
		for j := 1; j <= len(y); j++ {
			wrong := 1
			if x[i-1] == y[j-1] {
				wrong = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+wrong)
			if i > 1 && j > 1 && slices.Equal(x[i-2:i], []rune{y[j-1], y[j-2]}) {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(x)][len(y)]
}
