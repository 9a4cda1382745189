package result

import (
	"math"
	"strconv"
	"strings"
)

// Short formats a number with at most four figures, or as an integer.
func Short(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "–"
	case a >= 1e4 && a < 1e9:
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// Count formats an integer, with thin spaces between thousands if it has five
// digits or more.
func Count(n int) string {
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

// Labelled names the labels whose share is above one half, for rows with any number of labels. It returns
// "none" if there is no such label, and "" for nil shares.
func Labelled(names []string, shares []Float) string {
	if shares == nil {
		return ""
	}
	var list []string
	for k, v := range shares {
		if v > .5 {
			list = append(list, names[k])
		}
	}
	if list == nil {
		return "none"
	}
	return strings.Join(list, ", ")
}

// Some formats a count with its noun in singular or plural.
func Some(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return Count(n) + " " + many
}

// MostListed is how many rows a sentence lists.
const MostListed = 8

// List lists row numbers, the first few of many.
func List(rows []int) string {
	var list []string
	for _, r := range rows[:min(len(rows), MostListed)] {
		list = append(list, strconv.Itoa(r))
	}
	if len(rows) > MostListed {
		list = append(list, "…")
	}
	return strings.Join(list, ", ")
}
