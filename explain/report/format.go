package report

import (
	"math"
	"strconv"
	"strings"
)

// decimals returns how many digits after the point show the largest of v with
// about four figures, 0 to 6.
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
	return min(6, max(0, 3-int(math.Floor(math.Log10(top)))))
}

// fixed shows v with d decimals; an undefined number is a dash. Numbers of
// more than nine digits take an exponent.
func fixed(v float64, d int) string {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "–"
	case math.Abs(v) >= 1e9:
		return strconv.FormatFloat(v, 'e', 3, 64)
	}
	s := strconv.FormatFloat(v, 'f', d, 64)
	if strings.Trim(s, "-0.") == "" {
		s = strings.TrimPrefix(s, "-")
	}
	return s
}

// signed is fixed with a plus in front of what is not negative.
func signed(v float64, d int) string {
	s := fixed(v, d)
	if s == "–" || s[0] == '-' {
		return s
	}
	return "+" + s
}

// short shows a number in at most four figures.
func short(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "–"
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// probability shows p in three decimals, and near 0 and 1 in as many as say
// how near.
func probability(p float64) string {
	if math.IsNaN(p) {
		return "–"
	}
	switch q := math.Min(p, 1-p); {
	case q <= 0:
		return strconv.FormatFloat(p, 'f', 0, 64)
	case q < 1e-9 && p > q:
		return "1 − " + strconv.FormatFloat(1-p, 'e', 0, 64)
	case q < 1e-9:
		return strconv.FormatFloat(p, 'e', 0, 64)
	case q < 5e-4:
		return strconv.FormatFloat(p, 'f', int(math.Ceil(-math.Log10(q))), 64)
	}
	return strconv.FormatFloat(p, 'f', 3, 64)
}

// name shows a label: an integer as such.
func name(label Float) string {
	if v := float64(label); v == math.Trunc(v) && math.Abs(v) < 1e15 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return short(float64(label))
}

// label is name, and nothing for an unknown label.
func label(l Float) string {
	if !l.Finite() {
		return ""
	}
	return name(l)
}

// count shows a number with thin spaces between thousands where it has five
// digits or more.
func count(n int) string {
	s := strconv.Itoa(n)
	if len(s) < 5 {
		return s
	}
	var parts []string
	for ; len(s) > 3; s = s[:len(s)-3] {
		parts = append([]string{s[len(s)-3:]}, parts...)
	}
	return strings.Join(append([]string{s}, parts...), "\u202f")
}

// typeset puts true minus signs in front of numbers.
func typeset(s string) string { return strings.ReplaceAll(s, "-", "−") }

// some is n things, singular or plural.
func some(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return count(n) + " " + many
}

// portion is |x|/largest for a bar, 0 where that is no number.
func portion(x, largest float64) float64 {
	p := math.Abs(x) / largest
	if math.IsNaN(p) || math.IsInf(p, 0) {
		return 0
	}
	return min(1, p)
}

// listDecimals suits a list whose largest entry is given: three figures.
func listDecimals(largest float64) int { return max(0, decimals(largest)-1) }
