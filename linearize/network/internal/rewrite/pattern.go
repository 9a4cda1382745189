package rewrite

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Matches reports whether a name is the pattern, in which * stands for any characters and ? for one.
func Matches(pattern, name string) bool {
	if pattern == name {
		return true
	}
	star, from := -1, 0 // the last * in the pattern, and where in the name what follows it was tried
	i := 0
	for k := 0; k < len(name); {
		switch {
		case i < len(pattern) && pattern[i] == '*':
			star, from = i, k
			i++
		case i < len(pattern) && (pattern[i] == '?' || pattern[i] == name[k]):
			i++
			k++
		case star >= 0:
			from++
			i, k = star+1, from
		default:
			return false
		}
	}
	return strings.Trim(pattern[i:], "*") == ""
}

// Select returns the names that the patterns match, each once. A pattern that matches none is an error, which says what
// was to be done and lists the names nearest to the pattern; "*" may match none.
func Select(do string, patterns, names []string) ([]string, error) {
	var chosen []string
	for _, pattern := range patterns {
		found := false
		for _, name := range names {
			if Matches(pattern, name) {
				found = true
				if !slices.Contains(chosen, name) {
					chosen = append(chosen, name)
				}
			}
		}
		if found || pattern == "*" {
			continue
		}
		near := slices.Clone(names)
		slices.SortStableFunc(near, func(a, b string) int { return cmp.Compare(common(pattern, b), common(pattern, a)) })
		const most = 5
		list := ""
		if near = slices.Compact(near); len(near) > 0 {
			list = ", and the nearest are " + List(near[:min(most, len(near))])
		}
		return nil, fmt.Errorf("cannot %s %s: no tensor has that name%s; inspect lists them", do, Quote(pattern), list)
	}
	return chosen, nil
}

// common is the length of the longest text that two names share.
func common(a, b string) int {
	longest := 0
	before := make([]int, len(b)+1) // lengths of what ends at the character before of a and at each of b
	for i := range len(a) {
		row := make([]int, len(b)+1)
		for j := range len(b) {
			if a[i] == b[j] {
				row[j+1] = before[j] + 1
				longest = max(longest, row[j+1])
			}
		}
		before = row
	}
	return longest
}
