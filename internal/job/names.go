package job

import (
	"encoding/csv"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"
)

// SplitNames parses a comma-separated list of names, in which a name that contains a comma is in double quotes. ""
// gives nil.
func SplitNames(text string) ([]string, error) {
	if text == "" {
		return nil, nil
	}
	r := csv.NewReader(strings.NewReader(text))
	r.TrimLeadingSpace = true
	names, err := r.Read()
	if err != nil {
		return nil, fmt.Errorf("%q is not a list of names such as a,b", Cut(text, 60))
	}
	if extra, err := r.Read(); err == nil || len(extra) > 0 {
		return nil, fmt.Errorf("%q has more than one line", Cut(text, 60))
	}
	return CheckNames(names)
}

// CheckNames returns the names in NFC without surrounding spaces. It returns an error if a name is empty or occurs
// twice.
func CheckNames(list []string) ([]string, error) {
	out := slices.Clone(list)
	for i, name := range out {
		if out[i] = strings.TrimSpace(norm.NFC.String(name)); out[i] == "" {
			return nil, fmt.Errorf("%q has an empty name", Cut(JoinNames(list), 60))
		}
		if slices.Contains(out[:i], out[i]) {
			return nil, fmt.Errorf("%q names %s twice", Cut(JoinNames(list), 60), out[i])
		}
	}
	return out, nil
}

// JoinNames is the inverse of SplitNames.
func JoinNames(names []string) string {
	var b strings.Builder
	w := csv.NewWriter(&b)
	_ = w.Write(names) // writing to a strings.Builder cannot fail
	w.Flush()
	return strings.TrimSuffix(b.String(), "\n")
}
