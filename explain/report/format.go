package report

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/funcgp/funcgp/explain/result"
)

// decimals returns the number of decimals that shows the largest of v with about four figures. It is at
// most 6 unless the largest is below 1e-5, which fixed writes with an exponent.
func decimals(v ...float64) int {
	top := 0.0
	for _, x := range v {
		if a := math.Abs(x); a > top && !math.IsInf(a, 0) {
			top = a
		}
	}
	if top == 0 {
		return 3
	}
	d := max(0, 3-int(math.Floor(math.Log10(top))))
	if d <= exponentFrom {
		d = min(6, d)
	}
	return d
}

// exponentFrom is the number of decimals above which most numbers are written with an exponent.
const exponentFrom = 8

// fixed formats v with d decimals. Numbers from 1e9 on, and all numbers if d is more than 6, get an exponent. NaN and
// infinity become a dash.
func fixed(v float64, d int) string {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "–"
	case math.Abs(v) >= 1e9:
		return strconv.FormatFloat(v, 'e', 3, 64)
	}
	s := strconv.FormatFloat(v, 'f', d, 64)
	if zero := strings.Trim(s, "-0.") == ""; d > 6 && zero {
		return "0"
	} else if d > 6 {
		return strconv.FormatFloat(v, 'e', min(3, max(0, d+int(math.Floor(math.Log10(math.Abs(v)))))), 64)
	}
	if strings.Trim(s, "-0.") == "" {
		s = strings.TrimPrefix(s, "-")
	}
	return s
}

// signed is fixed with a plus sign unless v is negative.
func signed(v float64, d int) string {
	s := fixed(v, d)
	if s == "–" || s[0] == '-' {
		return s
	}
	return "+" + s
}

// datum formats a number of the data for reading: in full up to eight characters, otherwise with
// six figures, and with an exponent only far from 1.
func datum(v float64) string {
	a := math.Abs(v)
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "–"
	case a != 0 && (a < 1e-4 || a >= 1e12):
		return strconv.FormatFloat(v, 'g', 4, 64)
	case v == math.Trunc(v):
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	if s := strconv.FormatFloat(v, 'f', -1, 64); len(s) <= 8 {
		return s
	}
	s := strconv.FormatFloat(v, 'f', max(0, 5-int(math.Floor(math.Log10(a)))), 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// together puts no-break spaces between a number and its sign, its unit or the noun that it numbers.
var together = strings.NewReplacer(" %", "\u00a0%", " ± ", "\u00a0±\u00a0", "× ", "×\u00a0", "row ", "row\u00a0").Replace

// Probability formats p with three decimals, or with more near 0 and 1, so that the text is 0 or 1
// only if p is.
func Probability(p float64) string {
	if math.IsNaN(p) {
		return "–"
	}
	switch q := math.Min(p, 1-p); {
	case q <= 0:
		return strconv.FormatFloat(p, 'f', 0, 64)
	case q < 1e-5 && p > q:
		return "1 − " + typeset(strconv.FormatFloat(1-p, 'e', 0, 64))
	case q < 1e-5:
		return typeset(strconv.FormatFloat(p, 'e', 0, 64))
	case q < 5e-4:
		return strconv.FormatFloat(p, 'f', int(math.Ceil(-math.Log10(q))), 64)
	}
	return strconv.FormatFloat(p, 'f', 3, 64)
}

// name formats a label; an integer has no decimals.
func name(label result.Float) string {
	if v := float64(label); v == math.Trunc(v) && math.Abs(v) < 1e15 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return datum(float64(label))
}

// label formats a label as name does; an unknown label is "".
func label(l result.Float) string {
	if !l.Finite() {
		return ""
	}
	return name(l)
}

// typeset writes the numbers of a text as signs does, and separates thousands by thin spaces from five digits on.
// Numbers that name rows or classes stay as they are.
func typeset(s string) string {
	return words.ReplaceAllStringFunc(signs(s), func(word string) string {
		m := thousands.FindStringSubmatch(word)
		if m == nil {
			return word
		}
		n, _ := strconv.Atoi(m[1])
		return result.Count(n) + m[2]
	})
}

// words matches the words of a text. A word that names a row or class is matched together with the word
// before it. thousands matches words that are numbers with at least five digits before the decimal point.
var (
	words     = regexp.MustCompile(`(?:\b(?:rows?|labelled|for|against)[ \x{a0}])?[\pL\pN_.-]+`)
	thousands = regexp.MustCompile(`^([1-9][0-9]{4,17})(\.[0-9]*)?$`)
)

// signs replaces the hyphens that are signs of numbers by minus signs, and exponents by powers of ten. A hyphen after
// a letter or digit is no sign, as in covid-19.
func signs(s string) string {
	s = exponent.ReplaceAllStringFunc(s, func(number string) string {
		m := exponent.FindStringSubmatch(number)
		return m[1] + "\u00a0×\u00a010" + raised.Replace(strings.TrimLeft(m[2], "+0")+strings.TrimLeft(m[3], "0"))
	})
	var b strings.Builder
	for i := range len(s) {
		if s[i] == '-' && isNumeral(s[i+1:]) && (i == 0 || !isWord(s[i-1])) {
			b.WriteString("−")
		} else {
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

// exponent matches the end of a number with an exponent as Go writes it, and raised is the replacement with a
// power of ten.
var (
	exponent = regexp.MustCompile(`\b(\d+(?:\.\d+)?)e([+-])(\d\d+)\b`)
	raised   = strings.NewReplacer("-", "⁻", "0", "⁰", "1", "¹", "2", "²", "3", "³", "4", "⁴", "5", "⁵", "6", "⁶", "7", "⁷", "8", "⁸", "9", "⁹")
)

// isNumeral tells whether the text begins as an unsigned number does.
func isNumeral(s string) bool {
	return s != "" && (isDigit(s[0]) || s[0] == '.') || strings.HasPrefix(s, "∞")
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// isWord tells whether a byte is a letter, a digit or a hyphen. A hyphen after such a byte is not the sign of
// a number.
func isWord(c byte) bool {
	return isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'z' || c == '-' || c >= utf8.RuneSelf
}

// portion returns the length of a bar, |x|/largest but at most 1, or 0 if that is not finite.
func portion(x, largest float64) float64 {
	p := math.Abs(x) / largest
	if math.IsNaN(p) || math.IsInf(p, 0) {
		return 0
	}
	return min(1, p)
}

// listDecimals returns the number of decimals that shows the largest entry of a list with three
// figures.
func listDecimals(largest float64) int { return max(0, decimals(largest)-1) }

// Term formats a term of a sum with its sign, and with the decimals that show the largest term of its list with
// three figures.
func Term(v, largest float64) string { return signed(v, listDecimals(largest)) }
